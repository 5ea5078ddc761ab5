"""Where an object stands that a call gives, behind that call: on the spot, and by the names that hold it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

import libcst as cst

from ....source.calls import calls_of
from ....source.module import Module
from ..where_values_go import Place, handed_on


def uses_behind(module: Module, call: cst.Call, itself: Collection[str]) -> Iterator[cst.BaseExpression]:
    """Every place of what `call` gives, in `call.method()` and by name; `itself`: methods that give the object back.

    A function of the file that is given it is followed where nothing else calls that function.
    """
    seen: set[cst.BaseExpression] = set()
    places: set[Place] = set()
    pending: deque[cst.BaseExpression] = deque([call])
    while pending:
        node = pending.popleft()
        if node in seen:
            continue
        seen.add(node)
        attribute = module.parents[node]
        outer = module.parents.get(attribute)
        method = attribute if isinstance(attribute, cst.Attribute) and attribute.value is node else None
        if method is not None or not isinstance(node, cst.Call):
            yield node
        if method is None:
            for found in handed_on(module, node):
                if isinstance(found, Place) and found not in places:
                    places.add(found)
                    pending += _named(module, found, call)
                elif not isinstance(found, Place):
                    pending.append(found)
        elif isinstance(outer, cst.Call) and outer.func is method and method.attr.value in itself:
            pending.append(outer)


def _named(module: Module, place: Place, call: cst.Call) -> list[cst.BaseExpression]:
    """The uses of a variable that may hold the object: of a parameter all, of others those behind the call."""
    names: list[cst.BaseExpression] = [*module.references(place.variable, place.scope)]
    function = place.scope.node
    if place.scope is not module.scope(call) and isinstance(function, cst.FunctionDef):
        if len(calls_of(module, function)) != 1:
            return []
        return names
    return [name for name in names if module.span(name)[0] >= module.span(call)[1]]
