"""Whether an expression surely is a dataset of the library's, or a dictionary of them.

rows = load_dataset("imdb")          a dictionary
rows = rows["train"].map(clean)      a dataset
"""

from __future__ import annotations

import re
from typing import Literal

import libcst as cst

from porter.packs.script import (
    Binding,
    Module,
    Unknown,
    bound_value,
    evaluate,
    reaching,
    returned,
    text_index,
)

Kind = Literal["dataset", "dictionary"]
MAKES = re.compile(r"datasets\.(?:Dataset\.from_\w+|concatenate_datasets|interleave_datasets)")
ANNOTATED: dict[str | None, Kind] = {"datasets.Dataset": "dataset", "datasets.DatasetDict": "dictionary"}
LOADS = ("datasets.load_dataset", "datasets.load_from_disk")
# Methods of a dataset, or of a dictionary of them, that give one back.
CHAINS = frozenset(
    """
    map filter select shuffle sort remove_columns rename_column rename_columns cast cast_column take skip shard flatten
    add_column select_columns add_item unique_by flatten_indices
    """.split()
)
SPLITS = frozenset("train test validation valid dev eval train_sft test_sft train_prefs test_prefs".split())
SPLIT = 4  # its place among load_dataset's positional arguments


def is_dataset(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression is one dataset, and no dictionary of them nor a batch."""
    return _is(module, node, "dataset", set())


def _is(module: Module, node: cst.BaseExpression, kind: Kind, seen: set[tuple[Kind, Binding]]) -> bool:
    """Whether an expression is of a kind. A binding in `seen` is: what it hangs on is being asked, or was."""
    match node:
        case cst.Name() | cst.Attribute():
            bindings = reaching(module, node)
            return bool(bindings) and all(_is_bound(module, binding, kind, seen) for binding in bindings)
        case cst.IfExp():
            return all(_is(module, side, kind, seen) for side in (node.body, node.orelse))
        case cst.Subscript(value=held):
            return kind == "dataset" and text_index(node) in SPLITS and _is(module, held, "dictionary", seen)
        case cst.Call():
            return _is_made(module, node, kind, seen)
    return False


def _is_bound(module: Module, binding: Binding, kind: Kind, seen: set[tuple[Kind, Binding]]) -> bool:
    if (kind, binding) in seen:
        return True
    seen.add((kind, binding))
    if isinstance(binding.node, cst.Param) and binding.node.annotation is not None:
        named = module.qualified(binding.node.annotation.annotation)
        if named in ANNOTATED:
            return ANNOTATED[named] == kind
    value = bound_value(module, binding)
    return value is not None and _is(module, value, kind, seen)


def _is_made(module: Module, call: cst.Call, kind: Kind, seen: set[tuple[Kind, Binding]]) -> bool:
    function = module.callees.get(call)
    if function is not None and function.name.value != "__init__":
        values = returned(module, function)
        return bool(values) and all(_is(module, value, kind, seen) for value in values)
    name = module.qualified(call.func) or ""
    if name in LOADS:
        said = _split(module, call) if name == LOADS[0] else None
        return said is not (kind == "dictionary") and (kind == "dictionary" or name == LOADS[0])
    if kind == "dataset" and MAKES.fullmatch(name) is not None:
        return True
    if kind == "dictionary" and name == "datasets.DatasetDict":
        return True
    if not isinstance(call.func, cst.Attribute):
        return False
    method, held = call.func.attr.value, call.func.value
    if method == "train_test_split" and kind == "dictionary":
        return _is(module, held, "dataset", seen)
    return method in CHAINS and _is(module, held, kind, seen)


def _split(module: Module, call: cst.Call) -> bool | None:
    """Whether load_dataset is asked for a split, without which it gives a dictionary; None where that isn't known."""
    for place, argument in enumerate(call.args):
        named = argument.keyword.value if argument.keyword is not None else ""
        if named == "split" or (place == SPLIT and not named):
            try:
                return evaluate(module, argument.value) is not None
            except Unknown:
                return None
    return None if any(argument.star for argument in call.args) else False
