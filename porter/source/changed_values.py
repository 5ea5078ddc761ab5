"""Whether a list or dict that a name is bound to stays what it was made as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from .module import Module

READ_BY = ("get", "keys", "values", "items", "copy")  # methods that change nothing
# Builtins that read what they are given.
READERS = frozenset("print len list tuple set dict sorted str repr sum min max any all enumerate".split())


def changed_later(module: Module, name: cst.Name) -> bool:
    """Whether a list or dict bound to `name` is changed anywhere: a method call, an item or attribute assignment."""
    found = module.scope(name).lookup(name.value)
    if found is None:
        return True
    for use in module.references(name.value, found[0]):
        parent = module.parents[use]
        if isinstance(parent, cst.Attribute) and parent.attr.value not in READ_BY:
            return True
        if isinstance(parent, cst.Subscript) and isinstance(module.parents[parent], cst.AssignTarget | cst.AugAssign):
            return True
        if isinstance(parent, cst.Del | cst.AugAssign):
            return True
        if isinstance(parent, cst.Assign) and parent.value is use:
            return True  # another name for it, which may change it
        if isinstance(parent, cst.Arg) and not parent.star and _may_change(module, parent):
            return True
    return False


def _may_change(module: Module, argument: cst.Arg) -> bool:
    """Whether the function that gets a list or dict may change it: one of this file, called by its name."""
    call = module.parents[argument]
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Name) or call.func.value in READERS:
        return False
    found = module.scope(call).lookup(call.func.value)
    return found is not None and any(isinstance(binding.node, cst.FunctionDef) for binding in found[1])
