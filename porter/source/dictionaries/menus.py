"""Dictionaries of keywords of which a condition, or a key, chooses one where the call is made.

`Config(**({"token": token} if token else {}))`, `Config(**MODELS[args.model]["settings"])`.
"""

from __future__ import annotations

import libcst as cst

from ..held_values import changed_later
from ..indexes import index_of
from ..module import Module
from ..values import Unknown, evaluate
from .filled import Item
from .items import dict_items, is_dict_call

DEEPEST = 8  # dictionaries in dictionaries


def chosen_items(module: Module, node: cst.BaseExpression) -> list[Item] | None:
    """The items of `**({"token": token} if token else {})`, whose dictionary has no name to be read from, and of
    `**MODELS[args.model]["settings"]`, also where that has a name."""
    binding = module.single_binding(node)
    if isinstance(node, cst.Subscript) or (binding is not None and isinstance(binding.value, cst.Subscript)):
        return _menu_items(module, node)
    if not isinstance(node, cst.IfExp):
        return None
    one, other = dict_items(module, node.body), dict_items(module, node.orelse)
    if one is None or other is None:
        return None
    test = module.code(node.test)
    opposite = f"not {test}" if isinstance(node.test, cst.Name | cst.Attribute) else f"not ({test})"
    found = {key: Item(key, value, False, f"({module.code(value)} if {test} else None)") for key, value in one}
    for key, value in other:
        if key in found:
            read = found[key].read.removesuffix("None)") + f"{module.code(value)})"
        else:
            read = f"({module.code(value)} if {opposite} else None)"
        found[key] = Item(key, value, False, read)
    for key, value in one:
        given = module.code(value)
        if test == f"{given} is not None" and key not in dict(other):
            found[key] = Item(key, value, False, given)
    return list(found.values())


def _menu_items(module: Module, node: cst.BaseExpression) -> list[Item] | None:
    """The items of a dictionary in a dictionary of the file: certain where all that it may be have them alike."""
    menus = _choices(module, node)
    found = [items for menu in menus or () if (items := dict_items(module, menu)) is not None]
    if not found or len(found) != len(menus or ()):
        return None
    by_key: dict[str, list[cst.BaseExpression]] = {}
    for items in found:
        for key, value in items:
            by_key.setdefault(key, []).append(value)
    code, made = module.code(node), []
    for key, values in by_key.items():
        everywhere = len(values) == len(found)
        alike = everywhere and all(value.deep_equals(values[0]) for value in values)
        made.append(Item(key, values[0], alike, f'{code}["{key}"]' if everywhere else f'{code}.get("{key}")'))
    return made


def _choices(module: Module, node: cst.BaseExpression, depth: int = 0) -> list[cst.BaseExpression] | None:
    """What an expression may be of the dictionaries that the file writes out: all items where only the run knows the
    key."""
    if depth > DEEPEST:
        return None
    if isinstance(node, cst.Name):
        binding = module.single_binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None or changed_later(module, node):
            return None
        return _choices(module, binding.value, depth + 1)
    if not isinstance(node, cst.Subscript):
        return [node] if isinstance(node, cst.Dict) or is_dict_call(node) else None
    if (index := index_of(node)) is None:
        return None
    try:
        key = evaluate(module, index)
    except Unknown:
        key = None
    found: list[cst.BaseExpression] = []
    for menu in _choices(module, node.value, depth + 1) or ():
        items = dict_items(module, menu)
        if items is None or (key is not None and key not in dict(items)):
            return None
        for item in dict(items).values() if key is None else [dict(items)[key]]:
            inner = [item] if not isinstance(item, cst.Name | cst.Subscript) else _choices(module, item, depth + 1)
            if inner is None:
                return None
            found += inner
    return found or None
