"""The keys of a dict that a function of the same file returns: `data_module = make_data_module(...)`."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ...recipe import literal_code
from ..module import Module
from ..values import Unknown, evaluate
from .items import dict_items


@dataclass(frozen=True)
class ReturnedItem:
    """One item of a returned dict: its key, the code that reads it where the dict has a name, and its own value."""

    key: str
    code: str
    value: cst.BaseExpression


def returned_items(module: Module, node: cst.BaseExpression) -> list[ReturnedItem] | None:
    """The items of a `**` argument that a function of this file makes, under a name of its own or not; else None.

    Every return of the function has to give a dict with the same keys. A comprehension over `.items()` that only
    leaves keys out by name is followed too.
    """
    left_out: set[str] = set()
    if isinstance(node, cst.DictComp):
        found = _filtered(module, node)
        if found is None:
            return None
        node, left_out = found
    if isinstance(node, cst.Call):
        made = _known_items(module, node) or ()
        return [item for item in made if item.key not in left_out] or None
    if not isinstance(node, cst.Name):
        return None
    binding = module.single_binding(node)
    if binding is None or binding.kind != "assign" or not isinstance(binding.value, cst.Call):
        return None
    items = _returned(module, binding.value.func)
    if items is None:
        return None
    return [ReturnedItem(key, f'{node.value}["{key}"]', value) for key, value in items if key not in left_out]


def _known_items(module: Module, call: cst.Call) -> list[ReturnedItem] | None:
    """The items of `**settings()`, whose function only returns a dict, all of whose values are known."""
    function = module.callees.get(call)
    if function is None or function.decorators or function.asynchronous is not None:
        return None
    *before, last = function.body.body
    if any(not _is_docstring(line) for line in before) or not isinstance(last, cst.SimpleStatementLine):
        return None
    end = last.body[0]
    items = dict_items(module, end.value) if isinstance(end, cst.Return) and end.value is not None else None
    try:
        known = [(key, literal_code(evaluate(module, value)), value) for key, value in items or ()]
    except Unknown:
        return None
    return [ReturnedItem(*item) for item in known] if items is not None else None


def _is_docstring(line: cst.CSTNode) -> bool:
    first = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString | cst.ConcatenatedString)


def _returned(module: Module, function: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
    if not isinstance(function, cst.Name):
        return None
    binding = module.single_binding(function)
    if binding is None or not isinstance(binding.node, cst.FunctionDef):
        return None
    returns = [
        node for node in module.parents if isinstance(node, cst.Return) and _function(module, node) is binding.node
    ]
    found = [dict_items(module, node.value) if node.value is not None else None for node in returns]
    first = found[0] if found else None
    if first is None or any(items is None or [key for key, _ in items] != [key for key, _ in first] for items in found):
        return None
    if len(found) > 1:  # which of the values it is, the script decides
        return [(key, cst.Name("Ellipsis")) for key, _ in first]
    return first


def _function(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((around for around in module.ancestors(node) if isinstance(around, cst.FunctionDef | cst.Lambda)), None)


def _filtered(module: Module, node: cst.DictComp) -> tuple[cst.BaseExpression, set[str]] | None:
    """`{k: v for k, v in d.items() if k != "x"}` → `d` and the keys left out."""
    loop = node.for_in
    names = loop.target.elements if isinstance(loop.target, cst.Tuple) else ()
    texts = [module.code(element.value) for element in names]
    call = loop.iter
    plain = len(texts) == 2 and [module.code(node.key), module.code(node.value)] == texts and loop.inner_for_in is None
    if not plain or not isinstance(call, cst.Call) or call.args or not isinstance(call.func, cst.Attribute):
        return None
    if call.func.attr.value != "items":
        return None
    left_out = set()
    for condition in loop.ifs:
        test = condition.test
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or module.code(test.left) != texts[0]:
            return None
        part = test.comparisons[0]
        try:
            value = evaluate(module, part.comparator)
        except Unknown:
            return None
        if isinstance(part.operator, cst.NotEqual) and isinstance(value, str):
            left_out.add(value)
        elif isinstance(part.operator, cst.NotIn) and isinstance(value, list | tuple | set):
            left_out |= set(value)
        else:
            return None
    return call.func.value, left_out
