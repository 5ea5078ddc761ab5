"""The from_pretrained calls of which a variable holds one or another: in branches, by returns of a function, by the
calls of one that is given the model."""

from __future__ import annotations

import libcst as cst

from ....source.calls import argument_of, calls_of, function_around, returned
from ....source.module import Module
from ....source.read_value import read_value
from ....source.scopes import Binding
from ..dead_blocks import is_dead
from ..fill_from_tables import bindings_of, follow
from ..flow import binding_origins, is_itself, origins, unprepared
from ..sites import Argument, Site
from ..training import Training
from .reaching import reaching, reaching_in_a_row
from .where_models_come_from import is_from_scratch


def several_loads(porting: Training, argument: Argument | None) -> list[Site]:
    """The from_pretrained calls of which a variable holds one or another; none where it may hold something else."""
    module = porting.module
    found: list[Site] = []
    path = [*origins(module, argument.node)] if argument is not None else []
    node = path[-1] if path else None
    while (inner := _returned_name(porting, node)) is not None:
        node = inner
    if node is None:
        return []
    if len(values := _returned_values(module, node)) > 1:
        return _returned_loads(porting, values)
    for binding in reaching_in_a_row(module, node):
        values = list(binding_origins(module, binding))
        made = [site for site in porting.sites if site.role in ("model", "inject") and site.node in values]
        if made:
            first = made[0]
            loads = [first]
            if first.role == "inject":
                adapted = first.argument("model")
                given = binding.value.args if isinstance(binding.value, cst.Call) else ()  # also `attach(model)`
                handed = [*(argument.value for argument in given), adapted.node if adapted is not None else None]
                if any(_is_bound_by(module, each, bindings_of(module, node)) for each in handed):
                    continue
                loads = _loads_of(porting, adapted)
                if not loads:
                    return []
                porting.branch_injects += (first,)
            found += [site for site in loads if site not in found]
        elif binding.kind == "parameter" and (loads := _given_loads(porting, binding)):
            found += [site for site in loads if site not in found]
        elif is_from_scratch(porting, binding.value):
            continue
        elif not (is_itself(module, binding, node) or _is_none(binding.value)):
            return []
    return found


def _given_loads(porting: Training, binding: Binding) -> list[Site]:
    """The from_pretrained calls that the calls of a function give for a parameter; none where one gives another."""
    module, found = porting.module, list[Site]()
    function = function_around(module, binding.node)
    name = binding.node.name.value if isinstance(binding.node, cst.Param) else ""
    calls = [call for call in calls_of(module, function) if not is_dead(module, call)] if function is not None else []
    for call in calls:
        given = argument_of(module, call, name)
        if given is None or function_around(module, call) is function:
            return []
        loads = _loads_of(porting, Argument("", read_value(module, given), 0, 0, node=given))
        if not loads:
            return []
        found += [site for site in loads if site not in found]
    return found


def _returned_values(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What the returns of a function of the file give for a call of it, or for a part of what one gave."""
    call, index = node, None
    if not isinstance(node, cst.Call):
        bindings = reaching(module, node)
        if len(bindings) != 1 or bindings[0].value is None or bindings[0].kind not in ("assign", "unpack"):
            return []
        call, index = bindings[0].value, bindings[0].index
    function = module.callees.get(call) if isinstance(call, cst.Call) else None
    if function is None:
        return []
    values = [value for value in returned(module, function) if not is_dead(module, value)]
    if index is None:
        return values
    parts = [value.elements for value in values if isinstance(value, cst.Tuple | cst.List)]
    same = len(parts) == len(values) and all(index < len(part) for part in parts)
    return [part[index].value for part in parts] if same else []


def _returned_loads(porting: Training, values: list[cst.BaseExpression]) -> list[Site]:
    """The from_pretrained calls of which a function returns one or another; none where it may return something else."""
    found: list[Site] = []
    for value in values:
        made = [
            site for each in origins(porting.module, value) for site in porting.of_role("model") if site.node is each
        ]
        loads = made[:1] or several_loads(porting, Argument("", read_value(porting.module, value), 0, 0, node=value))
        if not loads:
            return []
        found += [site for site in loads if site not in found]
    return found


def _loads_of(porting: Training, argument: Argument | None) -> list[Site]:
    """The from_pretrained calls, one or several in branches, of which a variable holds the model."""
    one = follow(porting, argument, "model")
    return [one] if one is not None else several_loads(porting, argument)


def _is_bound_by(module: Module, node: cst.BaseExpression | None, bindings: list[Binding]) -> bool:
    """Whether a name, or `self.x`, means a variable with these bindings."""
    found = module.meaning(unprepared(module, node))
    return found is not None and any(binding in found[1] for binding in bindings)


def _returned_name(porting: Training, node: cst.BaseExpression | None) -> cst.Name | None:
    """The name that a function of the file gives back, where a variable holds what one call of it gave."""
    module = porting.module
    bindings = bindings_of(module, node)
    if node is not None and len(bindings) > 1:  # `model = accelerator.prepare_model(model)`
        bindings = [binding for binding in bindings if not is_itself(module, binding, node)]
    call = bindings[0].value if len(bindings) == 1 and bindings[0].kind in ("assign", "unpack") else None
    function = module.callees.get(call) if isinstance(call, cst.Call) else None
    if node is None or function is None or function_around(module, node) is function:
        return None
    values, place = returned(module, function), bindings[0].index
    value = values[0] if len(values) == 1 else None
    if isinstance(value, cst.Tuple) and place is not None and place < len(value.elements):
        value = value.elements[place].value
    return value if isinstance(value, cst.Name) else None


def _is_none(value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Name) and value.value == "None"
