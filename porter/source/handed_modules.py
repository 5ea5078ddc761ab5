"""Modules that a function is given: `check(torch)`, in whose body `torch.cuda.is_available()` is torch's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from .calls import argument_of, calls_of
from .scopes import Binding

if TYPE_CHECKING:
    from .module import Module

HANDED = "modules that functions are given"


def handed_module(module: Module, binding: Binding) -> str | None:
    """The package that every call of a function of the file gives a parameter; None for any other binding."""
    if binding.kind != "parameter":
        return None
    if HANDED not in module.memory:
        module.memory[HANDED] = {}  # what is asked for meanwhile is none
        module.memory[HANDED] = _handed(module)
    found: dict[cst.CSTNode, str] = module.memory[HANDED]
    return found.get(binding.node)


def _handed(module: Module) -> dict[cst.CSTNode, str]:
    functions = {
        function: None
        for call, function in module.callees.items()
        if any(_package(module, argument.value) for argument in call.args)
    }
    found: dict[cst.CSTNode, str] = {}
    for function in functions:
        parameters = function.params
        for parameter in (*parameters.posonly_params, *parameters.params, *parameters.kwonly_params):
            given = {
                _package(module, argument_of(module, call, parameter.name.value)) for call in calls_of(module, function)
            }
            if len(given) == 1 and (name := given.pop()):
                found[parameter] = name
    return found


def _package(module: Module, value: cst.BaseExpression | None) -> str:
    """The package that a name is the import of: `torch` of `import torch`; "" of anything else."""
    found = module.scope(value).lookup(value.value) if isinstance(value, cst.Name) else None
    names = (
        {binding.qualified if binding.kind == "import" else "" for binding in found[1]} if found is not None else set()
    )
    name = names.pop() if len(names) == 1 else ""
    return name if "." not in name else ""
