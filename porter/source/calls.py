"""Calls of a file's own functions: which function a call means, and which argument becomes which parameter.

Values are followed through them both ways: from a parameter back to what the caller gives, and from what a
function returns on to whoever called it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from .scopes import Binding, Scope, first_parameter, owner_of

if TYPE_CHECKING:
    from .module import Module

MAX_DEPTH = 4  # functions that call one another
HANDED_MODULES = "modules that functions are given"  # `check(torch)`, in whose body `torch.cuda` is torch's


def find_callees(module: Module) -> Mapping[cst.Call, cst.FunctionDef]:
    """The function of this file that each call means, `__init__` for a class; calls of anything else are left out."""
    methods: dict[str, list[cst.FunctionDef]] = {}
    for scope in module.scopes.values():
        if isinstance(scope.node, cst.ClassDef):
            for name, function in _methods(scope):
                methods.setdefault(name, []).append(function)
    found = {call: _callee(module, call, methods) for call in module.calls}
    return {call: function for call, function in found.items() if function is not None}


def calls_of(module: Module, function: cst.FunctionDef) -> list[cst.Call]:
    """Every call of a function of this file, in source order."""
    if "calls" not in module.memory:
        found: dict[cst.FunctionDef, list[cst.Call]] = {}
        for call, callee in module.callees.items():
            found.setdefault(callee, []).append(call)
        module.memory["calls"] = found
    return list(module.memory["calls"].get(function, ()))


def function_around(module: Module, node: cst.CSTNode) -> cst.FunctionDef | None:
    """The function in whose body `node` stands."""
    scope = module.scope(node)
    return scope.node if isinstance(scope.node, cst.FunctionDef) else None


def parameter_of(module: Module, argument: cst.Arg, call: cst.Call) -> str | None:
    """The parameter that an argument of a call of this file's own function becomes."""
    function = module.callees.get(call)
    if function is None or argument.star:
        return None
    if argument.keyword is not None:
        name = argument.keyword.value
        every = (*function.params.params, *function.params.kwonly_params)
        return name if any(parameter.name.value == name for parameter in every) else None
    position = 0
    for other in call.args:
        if other is argument:
            break
        if other.star:
            return None
        position += other.keyword is None
    names = _positional(module, function, call)
    return names[position] if position < len(names) else None


def argument_of(module: Module, call: cst.Call, parameter: str) -> cst.BaseExpression | None:
    """What a call of this file's own function gives for a parameter; its default where it gives nothing."""
    for argument in call.args:
        if argument.star:
            return None
        if parameter_of(module, argument, call) == parameter:
            return argument.value
    function = module.callees[call]
    every = (*function.params.posonly_params, *function.params.params, *function.params.kwonly_params)
    return next((found.default for found in every if found.name.value == parameter), None)


def given_by_only_call(module: Module, binding: Binding) -> cst.BaseExpression | None:
    """What the one call of a function of the file gives for a parameter; None where there are several, or none."""
    function = function_around(module, binding.node)
    calls = calls_of(module, function) if function is not None else []
    if len(calls) != 1 or not isinstance(binding.node, cst.Param):
        return None
    return argument_of(module, calls[0], binding.node.name.value)


def set_by_name(module: Module, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """The object, the name and the value of `setattr(args, "max_steps", 5)`; nothing of any other node."""
    if not isinstance(node, cst.Call) or module.code(node.func) != "setattr" or len(node.args) != 3:
        return ()
    return tuple(argument.value for argument in node.args)


def named_arguments(call: cst.Call, places: Sequence[str]) -> dict[str, cst.BaseExpression]:
    """What a call gives, by name; `places` are its positional arguments'. "" holds one behind these, or unpacked."""
    found: dict[str, cst.BaseExpression] = {}
    for place, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else "".join(places[place : place + 1])
        found["" if argument.star else name] = argument.value
    return found


def returned(module: Module, function: cst.FunctionDef) -> list[cst.BaseExpression]:
    """What a function returns, in the order of its lines; bare `return` and `return None` left out."""
    found = _all_returned(module).get(function, [])
    return sorted(found, key=lambda value: module.span(value)[0]) if len(found) > 1 else list(found)


def _all_returned(module: Module) -> Mapping[cst.FunctionDef, list[cst.BaseExpression]]:
    """What every function of the file returns, in no order: places take a walk through the whole file to know."""
    if "returned" not in module.memory:
        found: dict[cst.FunctionDef, list[cst.BaseExpression]] = {}
        for node in module.parents:
            if not isinstance(node, cst.Return) or node.value is None:
                continue
            around = function_around(module, node)
            if around is not None and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
                found.setdefault(around, []).append(node.value)
        module.memory["returned"] = found
    return module.memory["returned"]


def given_back(module: Module, binding: Binding) -> cst.BaseExpression | None:
    """What a name is in the one `return` of the function of the file that gives it: `a, b = load()`."""
    call = binding.value
    if binding.kind not in ("assign", "unpack") or not isinstance(call, cst.Call) or call.args:
        return None
    if not isinstance(call.func, cst.Name):
        return None
    found = module.scope(call).lookup(call.func.value)
    function = found[1][0].node if found is not None and len(found[1]) == 1 else None
    values = _all_returned(module).get(function, []) if isinstance(function, cst.FunctionDef) else []
    if len(values) != 1 or binding.index is None:
        return values[0] if len(values) == 1 else None
    parts = values[0].elements if isinstance(values[0], cst.Tuple) else ()
    return parts[binding.index].value if binding.index < len(parts) else None


def may_not_run(module: Module, binding: Binding, node: cst.CSTNode) -> bool:
    """Whether a name may be read at `node` without this binding: not where it stands above in the same `try:`."""
    if not binding.conditional or module.span(binding.node)[1] > module.span(node)[0]:
        return binding.conditional
    block = next((item for item in module.ancestors(binding.node) if isinstance(item, cst.BaseSuite)), None)
    return block is None or block not in module.ancestors(node)


def runs_before(module: Module, function: cst.FunctionDef, offset: int, depth: int = 0) -> bool:
    """Whether all that calls a function is known, and stands before a place of the file that no function holds."""
    calls = calls_of(module, function)
    named = [use for use in module.references(function.name.value, module.scope(function)) if use is not function.name]
    if (
        depth > MAX_DEPTH
        or not calls
        or len(named) != len(calls)
        or isinstance(module.scope(function).node, cst.ClassDef)
    ):
        return False
    for call in calls:
        around = function_around(module, call)
        if around is not None and not runs_before(module, around, offset, depth + 1):
            return False
        goes_on = any(module.span(loop)[1] > offset for loop in module.loops(call))
        if around is None and (module.span(call)[0] >= offset or goes_on):
            return False
    return True


def _positional(module: Module, function: cst.FunctionDef, call: cst.Call) -> list[str]:
    names = [parameter.name.value for parameter in (*function.params.posonly_params, *function.params.params)]
    is_method = isinstance(module.scope(function).node, cst.ClassDef) and first_parameter(function) is not None
    through_class = isinstance(call.func, cst.Attribute) and class_of(module, call.func.value, instance=False)
    return names[1:] if is_method and not through_class else names


def _callee(module: Module, call: cst.Call, methods: Mapping[str, list[cst.FunctionDef]]) -> cst.FunctionDef | None:
    if isinstance(call.func, cst.Name):
        binding = _definition(module, call.func)
        if binding is None:
            return None
        if isinstance(binding.node, cst.FunctionDef):
            return binding.node
        return dict(_methods(module.scopes[binding.node])).get("__init__")
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in methods:
        return None
    name = call.func.attr.value
    own = owner_of(call.func, module.scope(call))
    owner = own or class_of(module, call.func.value, instance=True) or class_of(module, call.func.value, instance=False)
    if owner is not None:
        return dict(_methods(owner)).get(name)
    # An object that comes from elsewhere: the method is meant when only one class of the file has it.
    is_object = isinstance(call.func.value, cst.Name | cst.Call) and module.qualified(call.func.value) is None
    return methods[name][0] if is_object and len(methods[name]) == 1 and not name.startswith("__") else None


def _definition(module: Module, name: cst.Name) -> Binding | None:
    found = module.scope(name).lookup(name.value)
    definitions = [binding for binding in found[1] if binding.kind == "definition"] if found is not None else []
    return definitions[0] if found is not None and len(found[1]) == len(definitions) == 1 else None


def class_of(module: Module, node: cst.BaseExpression, *, instance: bool) -> Scope | None:
    """The class of this file that `node` is (or, for `instance`, an object of)."""
    if instance:
        binding = module.single_binding(node) if isinstance(node, cst.Name) else None
        made = binding.value if binding is not None and binding.kind == "assign" else node
        if not isinstance(made, cst.Call):
            return None
        node = made.func
    definition = _definition(module, node) if isinstance(node, cst.Name) else None
    if definition is None or not isinstance(definition.node, cst.ClassDef):
        return None
    return module.scopes[definition.node]


def _methods(scope: Scope) -> Iterator[tuple[str, cst.FunctionDef]]:
    for name, bindings in scope.bindings.items():
        if len(bindings) == 1 and isinstance(bindings[0].node, cst.FunctionDef):
            yield name, bindings[0].node


def handed_module(module: Module, binding: Binding) -> str | None:
    """The package that every call of a function of the file gives a parameter; None for any other binding."""
    if binding.kind != "parameter":
        return None
    if HANDED_MODULES not in module.memory:
        module.memory[HANDED_MODULES] = {}  # what is asked for meanwhile is none
        module.memory[HANDED_MODULES] = _handed_modules(module)
        module.forget_names()  # those of meanwhile were found without
    found: dict[cst.CSTNode, str] = module.memory[HANDED_MODULES]
    return found.get(binding.node)


def _handed_modules(module: Module) -> dict[cst.CSTNode, str]:
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
