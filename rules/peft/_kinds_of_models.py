"""What a place may hold when the script comes there: a model with adapters, one that was merged, or one without.

    def adapt(model, settings):
        if settings is None:
            return model                            whole
        return get_peft_model(model, settings)      adapted

All that a variable may be bound to is followed, through branches, tuples, and the functions and methods of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Binding, argument_of, calls_of, function_around, makes_pair, origins, reaching, returned

PUTS_IN = re.compile(r"peft\.(?:Auto)?PeftModel(?:ForCausalLM)?\.from_pretrained")
WHOLE = ("merge_and_unload", "unload", "get_base_model")
Place = tuple[cst.BaseExpression, int | None]  # an expression, and which part of what it gives is meant


def puts_in(porting: Porting, value: cst.BaseExpression) -> bool:
    """Whether a call gives a PeftModel."""
    name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
    return name is not None and (name.endswith(".get_peft_model") or PUTS_IN.fullmatch(name) is not None)


def takes_out(value: cst.BaseExpression) -> bool:
    """Whether a call gives the model behind a PeftModel."""
    return isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in WHOLE


def kinds_of(porting: Porting, node: cst.BaseExpression) -> set[str]:
    """What `node` may hold: "adapted", "merged", or "other", which is a model as it was loaded, or one of elsewhere."""
    return {kind for kind, _ in made(porting, node)}


def made(porting: Porting, node: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The same with the expression that makes each."""
    seen: set[Place] = set()
    left: list[Place] = [(node, None)]
    while left:
        place = left.pop()
        if place in seen:
            continue
        seen.add(place)
        value, index = place
        if index is None:
            value = next(origins(porting.module, value), value)  # without `.to(device)` and k-bit preparation
        if puts_in(porting, value):
            yield "adapted", value
        elif takes_out(value):
            yield "merged", value
        elif behind := [*_behind(porting, value, index)]:
            left.extend(behind)
        else:
            yield "other", value


def _behind(porting: Porting, value: cst.BaseExpression, index: int | None) -> Iterator[Place]:
    """One step back, each way that there is."""
    module = porting.module
    if isinstance(value, cst.Call):
        function = None if makes_pair(module, value) else module.callees.get(value)
        if function is not None and function.name.value != "__init__":
            yield from ((each, index) for each in returned(module, function))
    elif isinstance(value, cst.IfExp):
        yield from ((each, index) for each in (value.body, value.orelse))
    elif isinstance(value, cst.BooleanOperation):
        yield from ((each, index) for each in (value.left, value.right))
    elif isinstance(value, cst.Tuple | cst.List):
        if index is not None and index < len(value.elements):
            yield value.elements[index].value, None
    elif index is None and isinstance(value, cst.Name | cst.Attribute):
        for binding in reaching(module, value):
            yield from _given(porting, binding)


def _given(porting: Porting, binding: Binding) -> Iterator[Place]:
    """What a binding gives its name; of a parameter, what each call of its function gives."""
    module = porting.module
    if binding.kind in ("assign", "unpack") and binding.value is not None:
        yield binding.value, binding.index if binding.kind == "unpack" else None
    elif binding.kind == "parameter" and isinstance(binding.node, cst.Param):
        function = function_around(module, binding.node)
        for call in calls_of(module, function) if function is not None else ():
            given = argument_of(module, call, binding.node.name.value)
            if given is not None:
                yield given, None
