"""The items of a dictionary that the file writes out: a display, a `dict(...)`, a name of one that nothing changes."""

from __future__ import annotations

import libcst as cst

from ..held_values import changed_later, held_by_class
from ..module import Module
from ..scopes import Binding
from ..values import Unknown, evaluate


def dict_items(module: Module, node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
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


def _dict_items(module: Module, node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
    if isinstance(node, cst.Name):
        binding: Binding | None = module.single_binding(node)
        if binding is None or binding.kind != "assign" or binding.value is None or changed_later(module, node):
            return None
        return dict_items(module, binding.value)
    if isinstance(node, cst.Attribute):
        held = held_by_class(module, node)
        return dict_items(module, held) if held is not None else None
    items: list[tuple[str, cst.BaseExpression]] = []
    if isinstance(node, cst.Dict):
        for element in node.elements:
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
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict":
        for argument in node.args:
            if argument.keyword is not None:
                items.append((argument.keyword.value, argument.value))
                continue
            inner = dict_items(module, argument.value)
            if inner is None:
                return None
            items.extend(inner)
        return items
    return None
