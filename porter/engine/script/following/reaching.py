"""Which of a name's bindings may hold where it is read.

rows = load_dataset("imdb", split="train")    not this one,
rows = rows.map(clean)                        but this,
if short:
    rows = rows.select(range(9))              or this
tokenizer(rows["text"])
"""

from __future__ import annotations

import libcst as cst

from ....source.calls import function_around
from ....source.module import Module
from ....source.scopes import Binding, inside
from ..fill_from_tables import bindings_of

ASSIGNS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Param)


def reaching(module: Module, name: cst.BaseExpression) -> list[Binding]:
    """The bindings of a name (or of `self.x`) that may hold at that place; of another function all of them."""
    found = not_behind(module, name)
    here = [binding for binding in found if _is_here(module, binding, name)]
    blocks = {item for item in module.ancestors(name) if isinstance(item, cst.BaseSuite | cst.Module)}
    start = module.span(name)[0]
    certain = [
        module.span(binding.node)[0]
        for binding in here
        if module.span(binding.node)[1] <= start and module.parents[module.statement(binding.node)] in blocks
    ]
    if not certain:
        return found
    return [binding for binding in found if binding not in here or module.span(binding.node)[0] >= max(certain)]


def reaching_in_a_row(module: Module, name: cst.BaseExpression) -> list[Binding]:
    """The same, and those that reach the values of these by the same name: `model = prepare(model)`."""
    found: list[Binding] = []
    pending, text = [name], module.code(name)
    while pending:
        for binding in reaching(module, pending.pop()):
            if binding in found:
                continue
            found.append(binding)
            if isinstance(binding.value, cst.BaseExpression):
                inner = [each for each in inside(binding.value) if isinstance(each, cst.Name | cst.Attribute)]
                pending += [each for each in inner if module.code(each) == text]
    return found


def not_behind(module: Module, name: cst.BaseExpression) -> list[Binding]:
    """The bindings of a name (or of `self.x`) but for those that it gets after it is read there alone."""
    return [binding for binding in bindings_of(module, name) if not _is_behind(module, binding, name)]


def _is_here(module: Module, binding: Binding, name: cst.BaseExpression) -> bool:
    """Whether a binding is an assignment (or a parameter) of the function in which the name is read."""
    is_same = function_around(module, binding.node) is function_around(module, name)
    return isinstance(binding.node, ASSIGNS) and is_same


def _is_behind(module: Module, binding: Binding, name: cst.BaseExpression) -> bool:
    """Whether a name was read before it is assigned: above it, or for its value, and in no loop with it.

    The variables of a comprehension are behind all that isn't in it.
    """
    if isinstance(binding.node, cst.CompFor):
        around = next(item for item in module.ancestors(binding.node) if isinstance(item, cst.BaseComp))
        return around not in module.ancestors(name)
    return _is_here(module, binding, name) and is_behind(module, binding.node, name)


def is_behind(module: Module, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether `node` is come to behind `other` alone: it stands below in the same function, and in no loop with it."""
    if function_around(module, node) is not function_around(module, other):
        return False
    if module.span(node)[1] <= module.span(other)[0]:
        return False
    return not module.loops(other) & module.loops(node)
