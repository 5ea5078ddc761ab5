"""Which of a name's bindings may hold where it is read.

rows = load_dataset("imdb", split="train")    not this one,
rows = rows.map(clean)                        but this,
if short:
    rows = rows.select(range(9))              or this
tokenizer(rows["text"])
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from ....source.calls import function_around
from ....source.module import Module
from ....source.scopes import Binding, inside
from ..fill_from_tables import bindings_of

ASSIGNS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Param)


def reaching(module: Module, name: cst.BaseExpression) -> list[Binding]:
    """The bindings of a name (or of `self.x`) that may hold at that place; of another function all of them."""
    return _from_last(module, name, not_behind(module, name), lambda binding: True)


def reaching_in_a_row(module: Module, name: cst.BaseExpression) -> list[Binding]:
    """The same, and those before them that their values are made of, by the same name: `model = prepare(model)`."""
    text = module.code(name)

    def is_made_anew(binding: Binding) -> bool:
        value = binding.value
        return not isinstance(value, cst.BaseExpression) or not any(
            _is_named(module, each, text) for each in inside(value)
        )

    return _from_last(module, name, not_behind(module, name), is_made_anew)


def _from_last(
    module: Module, name: cst.BaseExpression, found: list[Binding], ends: Callable[[Binding], bool]
) -> list[Binding]:
    """The bindings but those of the name's own function above the last that surely runs and ends what was before."""
    here = [binding for binding in found if _is_here(module, binding, name)]
    blocks = {item for item in module.ancestors(name) if isinstance(item, cst.BaseSuite | cst.Module)}
    start = module.span(name)[0]
    certain = [
        module.span(binding.node)[0]
        for binding in here
        if module.span(binding.node)[1] <= start and module.parents[module.statement(binding.node)] in blocks
        if ends(binding)
    ]
    if not certain:
        return found
    return [binding for binding in found if binding not in here or module.span(binding.node)[0] >= max(certain)]


def _is_named(module: Module, node: cst.CSTNode, text: str) -> bool:
    if isinstance(node, cst.Name):
        return node.value == text
    return isinstance(node, cst.Attribute) and module.code(node) == text


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
