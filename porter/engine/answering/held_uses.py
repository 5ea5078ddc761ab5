"""What the trainer holds of its own call and the script reads: `trainer.args.output_dir`, its rows, their number."""

from __future__ import annotations

import libcst as cst

from ...source.indexes import text_index
from ..script.fill_from_tables import table_of
from ..script.porting import Porting
from ..script.uses_of_training import Use, is_in_reach
from .scoped_names import named_at

# Trainers whose batches know how many rows they are made of.
COUNTED = ("sft", "causal-lm", "dpo", "orpo", "cpo", "kto")


def replace_held(porting: Porting, use: Use) -> bool:
    """What the trainer repeats of its call: `trainer.args.output_dir`, `len(trainer.train_dataset)`."""
    module, site = porting.module, porting.trainer
    parts = use.chain.split(".")
    if use.role != "trainer" or site is None:
        return False
    node: cst.CSTNode = module.parents[use.name]
    assigned = use.kind == "assign" and len(parts) == 1
    if parts[0] in ("tokenizer", "processing_class") and porting.names.tokenizer and not assigned:
        with named_at(porting, use):
            porting.edit(*module.span(node), porting.names.tokenizer, site.rule, "the trainer only held it")
        return True
    if use.kind != "read":
        return False
    start, end = module.span(node)
    if parts[0] == "args" and len(parts) > 1:
        with named_at(porting, use):
            if porting.arguments_object:
                porting.edit(start, end, porting.arguments_object, site.rule, "the trainer only repeats its arguments")
                return True
            row = table_of(porting, porting.arguments).table.row(parts[1]) if porting.arguments is not None else None
            if row is not None and row.place and porting.value(row.place) is not None:
                start, end = module.span(module.parents[node])
                porting.edit(start, end, porting.text(row.place), site.rule, "the value stands where it is used")
                return True
        return False
    dataset = site.argument(parts[0]) if parts[0] in ("train_dataset", "eval_dataset") else None
    if use.chain == "train_dataset" and _reads_tokens(porting, node) and is_in_reach(porting, use.name):
        porting.edit(
            start, end, f"{porting.names.batches}.train_dataset", site.rule, "the batches hold the trained rows"
        )
        return True
    if dataset is None or not is_in_reach(porting, use.name):
        return False
    kind = table_of(porting, site).kind
    repeats = dataset.reference or _is_part(dataset.node)
    if kind == "sft" and use.chain == "train_dataset" and _prints_tokens(porting, node):
        new = f"{porting.names.batches}.train_dataset"
        porting.edit(start, end, new, site.rule, "the batches hold the trained rows")
        return True
    call = _counted(porting, node)
    packed = kind == "sft" and porting.known("data.packing", False) not in (False, None)
    batches = porting.names.batches if parts[0] == "train_dataset" else porting.names.eval_batches
    if call is not None and kind in COUNTED and batches and (packed or not repeats):
        porting.edit(*module.span(call), f"{batches}.rows", site.rule, "the batches count their rows")
        return True
    if not repeats or (kind != "causal-lm" and (packed or call is None)):
        return False
    porting.edit(start, end, dataset.text, site.rule, "the trainer only repeats its arguments")
    return True


def _is_part(node: cst.CSTNode | None) -> bool:
    """Whether it is a part of a name by a text, `rows["test"]`."""
    return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name) and text_index(node) is not None


def _counted(porting: Porting, node: cst.CSTNode) -> cst.Call | None:
    """The `len(...)` around a node."""
    argument = porting.module.parents[node]
    call = porting.module.parents[argument]
    counts = isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and porting.module.code(call.func) == "len"
    return call if counts and isinstance(call, cst.Call) else None


def _prints_tokens(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether the rows, or one of them, `trainer.train_dataset[0]`, are printed whole."""
    row = porting.module.parents[node]
    shown = row if isinstance(row, cst.Subscript) and row.value is node else node
    argument = porting.module.parents[shown]
    call = porting.module.parents[argument]
    return isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and porting.module.code(call.func) == "print"


def _reads_tokens(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether `trainer.train_dataset` is read as rows of tokens, `[5]["input_ids"]`, of an SFTTrainer."""
    module, site = porting.module, porting.trainer
    row = module.parents[node]
    column = module.parents[row]
    if site is None or table_of(porting, site).kind != "sft" or not isinstance(row, cst.Subscript):
        return False
    if row.value is not node or not isinstance(column, cst.Subscript) or column.value is not row:
        return False
    return module.code(column)[len(module.code(row)) :] in (
        '["input_ids"]',
        "['input_ids']",
        '["labels"]',
        "['labels']",
    )
