"""Whether a script itself makes tokens of a dataset, as far as the methods that it calls on it are to be seen.

rows = load_dataset("imdb", split="test").map(lambda row: tokenizer(row["text"]))
"""

from __future__ import annotations

import libcst as cst

from porter.packs.script import (
    Binding,
    Module,
    argument_of,
    calls_of,
    function_around,
    inside,
    is_tokenizer,
    reaching,
    returned,
)

DEEPEST = 20  # names and calls that lead to one another
IDS = ("'input_ids'", '"input_ids"')


def makes_tokens(module: Module, rows: cst.CSTNode | None, depth: int = 0) -> bool:
    """Whether a function that a dataset was mapped with writes tokens, in any of the ways in which it is made."""
    if rows is None or depth > DEEPEST:
        return False
    if isinstance(rows, cst.Name | cst.Attribute):
        return any(_is_bound_to_tokens(module, binding, depth + 1) for binding in reaching(module, rows))
    if isinstance(rows, cst.Dict):
        return any(makes_tokens(module, element.value, depth + 1) for element in rows.elements)
    if isinstance(rows, cst.Subscript):
        return makes_tokens(module, rows.value, depth + 1)
    if not isinstance(rows, cst.Call):
        return False
    if (function := module.callees.get(rows)) is not None:
        return any(makes_tokens(module, value, depth + 1) for value in returned(module, function))
    if not isinstance(rows.func, cst.Attribute):
        return False
    if rows.func.attr.value == "map" and any(_writes_tokens(module, each.value) for each in rows.args):
        return True
    return makes_tokens(module, rows.func.value, depth + 1)


def _is_bound_to_tokens(module: Module, binding: Binding, depth: int) -> bool:
    function = function_around(module, binding.node)
    if binding.kind != "parameter" or function is None or not isinstance(binding.node, cst.Param):
        return makes_tokens(module, binding.value, depth)
    given = (argument_of(module, call, binding.node.name.value) for call in calls_of(module, function))
    return any(makes_tokens(module, value, depth) for value in given)


def _writes_tokens(module: Module, function: cst.CSTNode, depth: int = 0) -> bool:
    """Whether a function, what makes one, or what it calls of the script's own, is of tokens."""
    if depth > 2:
        return False
    if isinstance(function, cst.Name):
        found = [binding.node for binding in reaching(module, function) if binding.kind == "definition"]
        return any(_writes_tokens(module, node, depth + 1) for node in found)
    for node in inside(function):
        if isinstance(node, cst.SimpleString) and node.value in IDS:
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name | cst.Attribute):
            own = module.callees.get(node)
            if is_tokenizer(module, node.func) or (own is not None and _writes_tokens(module, own, depth + 1)):
                return True
        handed = node.value if isinstance(node, cst.Arg) else None  # `functools.partial(tokenize, tokenizer=tokenizer)`
        if isinstance(handed, cst.Name) and _writes_tokens(module, handed, depth + 1):
            return True
    return False
