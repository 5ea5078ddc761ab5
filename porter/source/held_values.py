"""What names and classes of the file hold, where nothing changes it: a list or dict, `config.training_arguments` of

class Config:
    training_arguments = {"learning_rate": 1e-4}

config = Config()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from .calls import class_of
from .scopes import Scope, owner_of, walk

if TYPE_CHECKING:
    from .module import Module

READ_BY = ("get", "keys", "values", "items", "copy")  # methods that change nothing
CHANGES = frozenset("append extend insert remove pop clear sort reverse update setdefault popitem add discard".split())
# Builtins that read what they are given.
READERS = frozenset("print len list tuple set dict sorted str repr sum min max any all enumerate".split())
SETTERS = ("setattr", "vars", "__dict__", "from_dict")


def held_by_class(module: Module, node: cst.Attribute) -> cst.BaseExpression | None:
    """The value that an attribute has from the body of its class; None where another may be given to it.

    Nothing changes a dictionary in it, nor gives it another name, and it names nothing of its class.
    """
    scope = owner_of(node, module.scope(node)) or _class(module, node.value)
    bindings = scope.bindings.get(node.attr.value, ()) if scope is not None else ()
    if scope is None or len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].value is None:
        return None
    if any(setter in module.text for setter in SETTERS) or not all(_reads(module, use) for use in _uses(module, node)):
        return None
    value = bindings[0].value
    named = {part.value for part in walk(value) if isinstance(part, cst.Name)}
    return None if named & scope.bindings.keys() else value


def _class(module: Module, node: cst.BaseExpression) -> Scope | None:
    """The class that `node` is or, where it is made of nothing, an object of."""
    if (scope := class_of(module, node, instance=False)) is not None:
        return scope
    binding = module.single_binding(node) if isinstance(node, cst.Name) else None
    made = binding.value if binding is not None and binding.kind == "assign" else None
    return class_of(module, node, instance=True) if isinstance(made, cst.Call) and not made.args else None


def _uses(module: Module, node: cst.Attribute) -> list[cst.Attribute]:
    """Every attribute of that name in the file."""
    if "attributes" not in module.memory:
        found: dict[str, list[cst.Attribute]] = {}
        for each in module.parents:
            if isinstance(each, cst.Attribute):
                found.setdefault(each.attr.value, []).append(each)
        module.memory["attributes"] = found
    return list(module.memory["attributes"][node.attr.value])


def _reads(module: Module, use: cst.Attribute) -> bool:
    """Whether an attribute is spread, or an item of it read."""
    parent = module.parents[use]
    if isinstance(parent, cst.Subscript):
        changed = isinstance(module.parents[parent], cst.AssignTarget | cst.AugAssign | cst.Del)
        return parent.value is use and not changed
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in READ_BY
    return isinstance(parent, cst.Arg) and parent.star == "**"


def changed_later(module: Module, name: cst.Name) -> bool:
    """Whether a list or dict bound to `name` is changed anywhere: a method call, an item or attribute assignment."""
    found = module.scope(name).lookup(name.value)
    if found is None:
        return True
    for use in module.references(name.value, found[0]):
        parent = module.parents[use]
        if isinstance(parent, cst.Attribute) and parent.attr.value not in READ_BY:
            return True
        if isinstance(parent, cst.Subscript) and changes_item(module, parent):
            return True
        if isinstance(parent, cst.Del | cst.AugAssign):
            return True
        if isinstance(parent, cst.Assign) and parent.value is use:
            return True  # another name for it, which may change it
        if isinstance(parent, cst.Arg) and not parent.star and _may_change(module, parent):
            return True
    return False


def changes_item(module: Module, item: cst.Subscript) -> bool:
    """Whether an item, or an item of it, is set or changed: `sizes["a"]["b"] = 1`, `sizes["a"].update(b=1)`."""
    around: cst.CSTNode = item
    while isinstance(parent := module.parents[around], cst.Subscript) and parent.value is around:
        around = parent
    called = isinstance(parent, cst.Attribute) and isinstance(module.parents[parent], cst.Call)
    changed = called and isinstance(parent, cst.Attribute) and parent.attr.value in CHANGES
    return changed or isinstance(parent, cst.AssignTarget | cst.AugAssign | cst.Del)


def _may_change(module: Module, argument: cst.Arg) -> bool:
    """Whether the function that gets a list or dict may change it: one of this file, called by its name."""
    call = module.parents[argument]
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Name) or call.func.value in READERS:
        return False
    found = module.scope(call).lookup(call.func.value)
    return found is not None and any(isinstance(binding.node, cst.FunctionDef) for binding in found[1])
