"""Where a model stands that a call gives, behind that call: on the spot, and by the names that hold it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import libcst as cst

from ....source.calls import calls_of
from ....source.module import Module
from ..where_values_go import Place, handed_on

# Methods by which a torch model gives itself back: in another type, and moved or switched.
MODEL_CASTS = frozenset({"to", "half", "bfloat16", "float"})
MODEL_IDLE = frozenset(
    {"cpu", "cuda", "eval", "train", "requires_grad_", "gradient_checkpointing_disable", "tie_weights"}
)
Gives = cst.Call | cst.IfExp | cst.BooleanOperation  # `merge(model) if adapted else model`, `merged or model`


def uses_behind(module: Module, call: Gives, *, shared: bool = False) -> Iterator[cst.BaseExpression]:
    """Every place of the model that `call` gives: by name, in `call.method()`, and behind methods that give it back.

    A function of the file that is given it is followed where nothing else calls that function, with `shared` also where
    other calls give it other models.
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
        if method is not None or not isinstance(node, Gives):
            yield node
        if method is None:
            for found in handed_on(module, node):
                if isinstance(found, Place) and found not in places:
                    places.add(found)
                    pending += _named(module, found, call, shared)
                elif not isinstance(found, Place):
                    pending.append(found)
        elif isinstance(outer, cst.Call) and outer.func is method and method.attr.value in MODEL_CASTS | MODEL_IDLE:
            pending.append(outer)


def _named(module: Module, place: Place, call: Gives, shared: bool) -> list[cst.BaseExpression]:
    """The uses of a variable that may hold the model: of a parameter all, of others those behind the call."""
    names: list[cst.BaseExpression] = [*module.references(place.variable, place.scope)]
    function = place.scope.node
    if place.scope is not module.scope(call) and isinstance(function, cst.FunctionDef):
        return names if shared or len(calls_of(module, function)) == 1 else []
    return [name for name in names if module.span(name)[0] >= module.span(call)[1]]
