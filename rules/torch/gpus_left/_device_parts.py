"""Devices whose text the script takes apart: `int(device.split(":")[1])`, `int(device[-1])`, `torch.device(d).index`.

The host's CPU has a number as well, so that "cpu:0" goes through all of these as "cuda:1" does; "cpu" ends the port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Module, argument_of, asks_for_gpu, calls_of, function_around

from ._reached import is_reached

ID = "TP536"
NUMBERED = re.compile(r"cuda:[\d{]")
DEVICE = re.compile(r"dev|cuda|gpu", re.IGNORECASE)
SPLITS = ("split", "rsplit", "partition", "rpartition")
WITHOUT = ("replace", "removeprefix", "strip", "lstrip")
FIX = "Give a number that a TPU machine has, or take the line out."
COLON = ('":"', "':'")
MAX_DEPTH = 3


def host_of(module: Module, value: cst.BaseExpression) -> str:
    """The host's CPU in place of a GPU: with a number where the GPU has one that the file reads."""
    numbered = NUMBERED.search(module.code(value)) and any(by_place for _, _, by_place in _parts(module))
    return '"cpu:0"' if numbered else '"cpu"'


def say_device_parts(porting: Porting) -> None:
    """An error for a device's number that isn't there: of the answer to a question, or behind "cuda:"."""
    module = porting.module
    for node, device, by_place in _parts(module):
        if porting.covered(module.span(node)[0]) or _is_guarded(module, node) or not is_reached(porting, node):
            continue
        values = [*_values(module, device, 0)]
        moved = any(NUMBERED.search(module.code(one)) and porting.covered(module.span(one)[0]) for one in values)
        asked = any(isinstance(one, cst.IfExp) and _gives_none(porting, one) for one in values)
        if asked or (moved and not by_place):
            given = '"cpu"' if asked else '"cpu:0"'
            message = f"{' '.join(module.code(node).split())} ends the port: {module.code(device)} is {given} there."
            porting.find(ID, "error", message, FIX, *module.location(node))


def _is_guarded(module: Module, node: cst.CSTNode) -> bool:
    """Whether it is read where there is a colon: `int(device.split(":")[1]) if ":" in device else 0`."""
    holders = [each for each in module.ancestors(node) if isinstance(each, cst.If | cst.IfExp)]
    return any(colon in module.code(each.test) for each in holders for colon in (*COLON, "cuda:"))


def _parts(module: Module) -> list[tuple[cst.BaseExpression, cst.BaseExpression, bool]]:
    """What takes a device's text apart, that device, and whether it does so by places that "cpu:0" has as well."""
    if "parts of devices" not in module.memory:
        module.memory["parts of devices"] = [*_found(module)]
    found: list[tuple[cst.BaseExpression, cst.BaseExpression, bool]] = module.memory["parts of devices"]
    return found


def _found(module: Module) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, bool]]:
    for call in module.calls:
        function, given = call.func, [module.code(argument.value) for argument in call.args]
        if isinstance(function, cst.Attribute) and function.attr.value in SPLITS and given[:1] and given[0] in COLON:
            if _is_device(module, function.value) and _reads_number(module, call):
                holder = module.parents[call]
                yield holder if isinstance(holder, cst.Subscript) else call, function.value, True
        elif module.code(function) == "int" and len(call.args) == 1:
            text = call.args[0].value
            if isinstance(text, cst.Subscript) and _is_device(module, text.value):
                yield call, text.value, module.code(text).endswith("[-1]")
            elif isinstance(text, cst.Call) and isinstance(cut := text.func, cst.Attribute):
                cuts = cut.attr.value in WITHOUT and "cuda" in module.code(text)
                if cuts and _is_device(module, cut.value):
                    yield call, cut.value, False
    for call in module.calls_by_name.get("torch.device", ()):
        holder = module.parents[call]
        if isinstance(holder, cst.Attribute) and holder.attr.value == "index" and len(call.args) == 1:
            if isinstance(module.parents[holder], cst.Arg | cst.Index):
                yield holder, call.args[0].value, True


def _reads_number(module: Module, call: cst.Call) -> bool:
    """Whether what stands behind the colon is read: by its place, or by a name of its own."""
    holder = module.parents[call]
    if isinstance(holder, cst.Subscript):
        return re.search(r"\[(?:-?1|2)\]$", module.code(holder)) is not None
    return isinstance(holder, cst.Assign) and isinstance(holder.targets[0].target, cst.Tuple)


def _gives_none(porting: Porting, asked: cst.IfExp) -> bool:
    """Whether `"cuda:0" if torch.cuda.is_available() else "cpu"` stays, and gives a device without a number."""
    module = porting.module
    stays = not porting.covered(module.span(asked)[0]) and not porting.covered(module.span(asked.test)[0])
    return stays and asks_for_gpu(module, asked.test) and ":" not in module.code(asked.orelse)


def _is_device(module: Module, value: cst.BaseExpression) -> bool:
    named = value.attr if isinstance(value, cst.Attribute) else value
    if isinstance(named, cst.Name) and DEVICE.search(named.value):
        return True
    return any("cuda" in module.code(one) for one in _values(module, value, 0))


def _values(module: Module, value: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
    """What a name holds, or the calls of its function give for it; the value itself where it is none."""
    if not isinstance(value, cst.Name) or depth > MAX_DEPTH:
        if isinstance(value, cst.Call) and module.qualified(value.func) == "torch.device" and value.args:
            value = value.args[0].value
        yield value
        return
    meaning = module.meaning(value)
    for one in meaning[1] if meaning is not None else ():
        if one.kind == "assign" and one.value is not None:
            yield from _values(module, one.value, depth + 1)
        elif isinstance(one.node, cst.Param):
            yield from _given(module, one.node, depth)


def _given(module: Module, parameter: cst.Param, depth: int) -> Iterator[cst.BaseExpression]:
    """What the calls of its function give for a parameter, or its default where they give nothing."""
    function = function_around(module, parameter)
    for call in calls_of(module, function) if function is not None else ():
        given = argument_of(module, call, parameter.name.value)
        if given is not None:
            yield from _values(module, given, depth + 1)
