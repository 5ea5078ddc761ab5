"""Rows that Unsloth's SFTTrainer refuses: conversations alone, which TRL renders itself.

Without a `formatting_func` Unsloth wants a column of text, tokens, or prompts and completions. So did its releases from
2024.8 to 2026.8.19 at least, which take the first row's text; later ones render `messages`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Module, origins
from porter.packs.training import Training

PART_OF = "TP703"

MADE = ("datasets.Dataset.from_dict", "datasets.Dataset.from_list")


@step(Phase.READ, of="trainer", reads=("rows_by", "script values", "data.text_field"))
def say_refused_rows(porting: Training) -> None:
    """An error where the script itself makes a dataset that the port's batches, as that Unsloth, will not take."""
    given = porting.trainer.argument("train_dataset") if porting.trainer is not None and porting.rows_by else None
    formatting = porting.value("data.formatting")
    field = porting.known("data.text_field") or "text"
    if given is None or not isinstance(field, str) or (formatting is not None and not formatting.is_literal(None)):
        return
    found = columns(porting.module, given.node)
    if found is None or {field, "input_ids", "labels"} & found or {"prompt", "completion"} <= found:
        return
    named = ", ".join(map(repr, sorted(found)))
    message = f"Unsloth {porting.rows_by} refuses these rows, and so does the port: they have {named}, and Unsloth"
    message += f" wants a column {field!r} or a formatting_func."
    fix = f"Render them: a column {field!r} of tokenizer.apply_chat_template(row[...], tokenize=False), as TRL's own"
    fix += " trainer and later Unsloths do."
    porting.find(PART_OF, "error", message, fix, given.line, given.column)


def columns(module: Module, dataset: cst.BaseExpression | None) -> frozenset[str] | None:
    """The columns of a dataset that the script writes out by name; None where they aren't to be seen."""
    made = next((value for value in origins(module, dataset) if _makes(module, value)), None)
    rows = _made(module, made.args[0].value) if isinstance(made, cst.Call) and made.args else None
    if isinstance(rows, cst.List) and rows.elements:
        rows = rows.elements[0].value
    if isinstance(rows, cst.ListComp):
        rows = rows.elt
    rows = _made(module, rows)
    if not isinstance(rows, cst.Dict):
        return None
    names = [*_names(rows)]
    return frozenset(name for name in names if name is not None) if names and None not in names else None


def _made(module: Module, value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """What a name is given, or a function of the script gives back: `rows = [as_chat(each) for each in texts]`."""
    found = value
    for found in origins(module, value):
        if isinstance(found, cst.List | cst.ListComp | cst.Dict):
            break
    return None if any(_grows(module, value)) else found


def _grows(module: Module, value: cst.BaseExpression | None) -> Iterator[bool]:
    """For each use of a variable, whether it may put something in: `rows.append(...)`, `row["text"] = ...`."""
    held = module.meaning(value) if isinstance(value, cst.Name) else None
    for use in module.references(value.value, held[0]) if held is not None and isinstance(value, cst.Name) else ():
        holder = module.parents[use]
        reads = isinstance(holder, cst.Subscript) and isinstance(module.parents[holder], cst.Arg)  # print(rows[0])
        yield isinstance(holder, cst.Attribute | cst.Subscript) and not reads


def _makes(module: Module, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and module.qualified(value.func) in MADE


def _names(rows: cst.Dict) -> Iterator[str | None]:
    for element in rows.elements:
        key = element.key if isinstance(element, cst.DictElement) else None
        name = key.evaluated_value if isinstance(key, cst.SimpleString) else None
        yield name if isinstance(name, str) else None
