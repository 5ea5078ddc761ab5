"""Rows whose padding is trained, packed by a TRL before 0.15: it takes them as they are, and the port's batches don't.

made = tokenizer(row["text"], padding="max_length", max_length=256)
made["labels"] = made["input_ids"].copy()

Under packing=True that TRL makes no collator of its own, so that such labels and the attention_mask stay.
`rt.SFTBatches` has no place for padding that is trained and that nothing sees.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Module, origins, plain_version, version_key
from porter.packs.training import Training, table_of

PART_OF = "TP102"
PADS = re.compile(r"""\bpadding\s*=\s*["']max_length["']""")
TRAINS = re.compile(
    r"""["']labels["']\s*\]?\s*[=:]\s*(?:list\()?\w+\[["']input_ids["']\](?:\.copy\(\)|\[:\])?\)?\s*(?:[,})#\n]|$)"""
)
OTHER_LABELS = re.compile(r"-\s*100\b|masked_fill|pad_token_id")
MAKES_COLLATOR = (0, 15)  # TRL's first that has one for packed rows, too


@step(Phase.READ, of="trainer", reads=("script values", "data.packing"))
def say_trained_padding(porting: Training) -> None:
    """An error where the script surely trains padding that it packs: the port's batches refuse such rows."""
    site = porting.trainer
    if site is None or porting.loop is not None or table_of(porting, site).kind != "sft":
        return
    if porting.known("data.packing", False) is not True or site.argument("data_collator") is not None:
        return
    trl = plain_version(porting.versions.get("trl", "1"))
    rows = site.argument("train_dataset")
    if version_key(trl) >= MAKES_COLLATOR or rows is None or not _trains_padding(porting.module, rows.node):
        return
    message = f"The rows are padded to one length and every label is trained: TRL {trl} does so under packing=True, and"
    message += " rt.SFTBatches refuses such rows when the port starts."
    fix = "Take the padding out of the rows (padding=False), or give it labels of -100, on the GPU too."
    porting.find(PART_OF, "error", message, fix, site.line, site.column)


def _trains_padding(module: Module, dataset: cst.BaseExpression | None) -> bool:
    """Whether the function that the dataset's `.map(...)` is given pads its rows to one length and takes all of that
    for labels."""
    for call in origins(module, dataset):
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "map":
            continue
        given = next(
            (each.value for each in call.args if each.keyword is None or each.keyword.value == "function"), None
        )
        binding = module.single_binding(given) if given is not None else None
        text = module.code(binding.node) if binding is not None and isinstance(binding.node, cst.FunctionDef) else ""
        if PADS.search(text) and TRAINS.search(text) and not OTHER_LABELS.search(text):
            return True
    return False
