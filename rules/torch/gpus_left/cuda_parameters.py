"""A GPU that a function or class of the script is given, or has for the default of its parameter.

What it does: `Scorer(path, device="cuda")`, and `def __init__(self, path, device="cuda")` where a call leaves it out,
say the host's CPU, if the function still reads it.
Why: a TPU machine's torch is built without CUDA, so that the port would end inside the function.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, calls_of, parameter_of

from ._reached import is_reached
from .cuda_left import is_cuda, say_host

PART_OF = "TP536"


@step(Phase.NAME, reads=("gpu tests",), fills=("gpu parameters",))
def move_parameters(porting: Porting) -> None:
    """What such a parameter gets becomes the CPU: at the call, or where its default stands."""
    module = porting.module
    if "cuda" not in module.text:
        return
    for call, function in module.callees.items():
        for argument in call.args:
            name = parameter_of(module, argument, call) if is_cuda(module, argument.value) else None
            if name and _asks(porting, function, name) and _stays(porting, call):
                _move(porting, argument.value, call)
    for function in [node for node in module.parents if isinstance(node, cst.FunctionDef)]:
        for parameter in (*function.params.params, *function.params.kwonly_params):
            default, name = parameter.default, parameter.name.value
            if default is None or not is_cuda(module, default) or not _asks(porting, function, name):
                continue
            if any(_leaves_out(module, call, name) and _stays(porting, call) for call in calls_of(module, function)):
                _move(porting, default, function)


def _asks(porting: Porting, function: cst.FunctionDef, name: str) -> bool:
    """Whether what is left of a function reads a parameter that is a device by its name."""
    module = porting.module
    if "device" not in name or porting.covered(module.span(function.name)[0]):
        return False
    uses = module.references(name, module.scope(function.body))
    return any(not porting.covered(module.span(use)[0]) and not _is_shown(module, use) for use in uses)


def _is_shown(module: Module, use: cst.CSTNode) -> bool:
    """Whether a use only stands in a text, or is printed."""
    holder = module.parents[use]
    call = module.parents[holder] if isinstance(holder, cst.Arg) else None
    printed = isinstance(call, cst.Call) and module.code(call.func) == "print"
    return printed or isinstance(holder, cst.FormattedStringExpression)


def _stays(porting: Porting, call: cst.Call) -> bool:
    return not porting.covered(porting.module.span(call)[0]) and is_reached(porting, call)


def _leaves_out(module: Module, call: cst.Call, name: str) -> bool:
    """Whether a call gives nothing for a parameter."""
    return all(not argument.star and parameter_of(module, argument, call) != name for argument in call.args)


def _move(porting: Porting, given: cst.BaseExpression, where: cst.CSTNode) -> None:
    module = porting.module
    say_host(porting, given)
    code = " ".join(module.code(module.parents[given]).split()).rstrip(", ")
    message = f"{code}: on the host's CPU in the port: a TPU isn't torch's."
    porting.find(PART_OF, "info", message, "", *module.location(where))
