"""The items of a dictionary that the file writes out: `{...}`, `dict(...)`, two that are put together, `zip(...)`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ..held_values import changed_later, held_by_class
from ..module import Module
from ..scopes import Binding
from ..values import Unknown, evaluate

Items = list[tuple[str, cst.BaseExpression]]
Lists = tuple[cst.BaseExpression, cst.BaseExpression]
COPIES = ("copy.copy", "copy.deepcopy")


def dict_items(module: Module, node: cst.BaseExpression) -> Items | None:
    """The items of a `**` argument whose keys are all strings of this file; None when they aren't known.

    Follows a name bound once to a dict display or a `dict(...)` call that nothing changes later.
    """
    memory = module.memory.setdefault("items", {})
    if node not in memory:
        memory[node] = None  # what is made of itself has none
        found = _dict_items(module, node)
        # A key that stands twice has its last value: `{**d, **d}` is no longer than d.
        memory[node] = list(dict(found).items()) if found is not None else None
    return list(memory[node]) if memory[node] is not None else None


def _dict_items(module: Module, node: cst.BaseExpression) -> Items | None:
    if isinstance(node, cst.Name):
        binding: Binding | None = module.single_binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None or changed_later(module, node):
            return None
        return dict_items(module, binding.value)
    if isinstance(node, cst.Attribute):
        held = held_by_class(module, node)
        return dict_items(module, held) if held is not None else None
    if isinstance(node, cst.Dict):
        return items_of(module, node.elements)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        left, right = dict_items(module, node.left), dict_items(module, node.right)
        return [*left, *right] if left is not None and right is not None else None
    if isinstance(node, cst.Call) and (copied := copied_by(module, node)) is not None:
        return dict_items(module, copied)
    if isinstance(node, cst.Call) and is_dict_call(node):
        return items_given(module, node.args)
    if isinstance(node, cst.DictComp) and (pair := zipped_by(module, node)) is not None:
        return zipped_items(module, *pair)
    return None


def is_dict_call(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict"


def copied_by(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """`kwargs` of `kwargs.copy()` and `copy.deepcopy(kwargs)`."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "copy" and not call.args:
        return call.func.value
    if len(call.args) == 1 and not call.args[0].star and module.qualified(call.func) in COPIES:
        return call.args[0].value
    return None


def items_of(module: Module, elements: Sequence[cst.BaseDictElement]) -> Items | None:
    """The items of a dict display's elements."""
    items: Items = []
    for element in elements:
        if isinstance(element, cst.DictElement):
            try:
                key = evaluate(module, element.key)
            except Unknown:
                return None
            if not isinstance(key, str):
                return None
            items.append((key, element.value))
        else:
            inner = dict_items(module, element.value)
            if inner is None:
                return None
            items.extend(inner)
    return items


def items_given(module: Module, arguments: Sequence[cst.Arg]) -> Items | None:
    """The items that `dict(...)` or `kwargs.update(...)` is given."""
    items: Items = []
    for argument in arguments:
        if argument.keyword is not None:
            items.append((argument.keyword.value, argument.value))
            continue
        inner = dict_items(module, argument.value)
        if inner is None and (pair := zipped(module, argument.value)) is not None:
            inner = zipped_items(module, *pair)
        if inner is None:
            return None
        items.extend(inner)
    return items


def zipped(module: Module, node: cst.BaseExpression) -> Lists | None:
    """`names` and `values` of `zip(names, values)`; None where a node isn't Python's `zip` of two lists."""
    if not isinstance(node, cst.Call) or module.code(node.func) != "zip" or len(node.args) != 2:
        return None
    if module.scope(node).lookup("zip") is not None or any(each.star or each.keyword for each in node.args):
        return None
    return node.args[0].value, node.args[1].value


def zipped_by(module: Module, node: cst.DictComp) -> Lists | None:
    """The lists of `{name: value for name, value in zip(names, values)}`."""
    loop, target = node.for_in, node.for_in.target
    names = [module.code(each.value) for each in target.elements] if isinstance(target, cst.Tuple) else []
    plain = names == [module.code(node.key), module.code(node.value)] and not loop.ifs and loop.inner_for_in is None
    return zipped(module, loop.iter) if plain else None


def zipped_items(module: Module, first: cst.BaseExpression, second: cst.BaseExpression) -> Items | None:
    """The items of two lists' pairs, where it is known what stands in both."""
    keys, values = _elements(module, first), _elements(module, second)
    try:
        names = [evaluate(module, key) for key in keys or ()]
    except Unknown:
        return None
    if keys is None or values is None or not all(isinstance(name, str) for name in names):
        return None
    return [*zip(names, values, strict=False)]  # as long as the shorter


def _elements(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """What stands in a list or a tuple that the file writes out and nothing changes."""
    if isinstance(node, cst.Name):
        binding = module.single_binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None or changed_later(module, node):
            return None
        node = binding.value
    if not isinstance(node, cst.List | cst.Tuple):
        return None
    elements = [each.value for each in node.elements if isinstance(each, cst.Element)]
    return elements if len(elements) == len(node.elements) else None
