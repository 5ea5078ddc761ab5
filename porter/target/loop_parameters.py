"""A function that holds a training loop and is given its parts: `train(model, loader, optimizer, scheduler)`.

The DataLoader, the optimizer and the schedule are no objects in the port. What they were made of is what the function
is given instead: `train(model, rows, total_steps)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from ..engine.script.fill_from_tables import short_name
from ..engine.script.porting import Porting
from ..engine.script.sites import Argument, Site
from ..source.calls import argument_of, calls_of, function_around, parameter_of
from ..source.module import Module
from ..source.scopes import Scope, walk

REASON = "what the loop's parts were made of"


def holder_of(porting: Porting) -> tuple[cst.FunctionDef, cst.Call] | None:
    """The function that holds the loop, and its one call."""
    assert porting.loop is not None
    function = function_around(porting.module, porting.loop.statement)
    calls = calls_of(porting.module, function) if function is not None else []
    return (function, calls[0]) if function is not None and len(calls) == 1 else None


def parameters_for(porting: Porting, parts: Sequence[Site]) -> dict[str, Site]:
    """The parameters of the loop's function that are given its parts."""
    held = holder_of(porting)
    if held is None:
        return {}
    function, call = held
    found = {}
    for argument in call.args:
        name = parameter_of(porting.module, argument, call)
        site = next((part for part in parts if part.variable == porting.module.code(argument.value)), None)
        if name is not None and site is not None and site.scope is not porting.module.scopes[function]:
            found[name] = site
    return found


def hand_over(porting: Porting, block: str, parts: Sequence[Site]) -> None:
    """Give the loop's function what new code reads of the parts, where it can't; say what it can't be given."""
    assert porting.trainer is not None
    module, here = porting.module, porting.trainer.scope
    held, given = holder_of(porting), parameters_for(porting, parts)
    handed: dict[str, list[str]] = {name: [] for name in given}
    for site in parts:
        for argument in site.arguments:
            for name in _out_of_reach(module, argument, here):
                if not _reads(block, name) or any(name in names for names in handed.values()):
                    continue
                parameter = next((each for each, part in given.items() if part is site), next(iter(given), None))
                if held is None or parameter is None or not _can_be_given(module, *held, name, site.scope, given):
                    message = f"{name} can't be read where the loop stands, and {short_name(site)} was made of it."
                    fix = "Make the loop's DataLoader, optimizer and schedule in the function that holds the loop."
                    porting.find(site.rule, "error", message, fix, argument.line, argument.column)
                elif not _is_given(module, *held, name):
                    handed[parameter].append(name)
    if held is not None and given:
        _rewrite(porting, *held, handed)


def _reads(block: str, name: str) -> bool:
    """Whether new code reads a name."""
    return re.search(rf"(?<![\w.]){re.escape(name)}\b(?!\s*=[^=])", block) is not None


def _out_of_reach(module: Module, argument: Argument, here: Scope) -> Iterator[str]:
    """The names of an argument that mean something else, or nothing, where the loop stands."""
    for node in walk(argument.node) if argument.node is not None else ():
        parent = module.parents.get(node)
        attribute = isinstance(parent, cst.Attribute) and parent.attr is node
        keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if not isinstance(node, cst.Name) or attribute or keyword:
            continue
        there = module.scope(node).lookup(node.value)
        own = there is not None and argument.node in (there[0].node, *module.ancestors(there[0].node))  # a lambda's
        if there is None or own:
            continue
        at_loop = here.lookup(node.value)
        if at_loop is None or at_loop[0] is not there[0]:
            yield node.value


def _is_given(module: Module, function: cst.FunctionDef, call: cst.Call, name: str) -> bool:
    """Whether the function is given a name under the same name."""
    value = argument_of(module, call, name) if name in module.scopes[function].bindings else None
    return isinstance(value, cst.Name) and value.value == name


def _can_be_given(
    module: Module, function: cst.FunctionDef, call: cst.Call, name: str, scope: Scope, given: dict[str, Site]
) -> bool:
    """Whether the call can read a name as the part did, and the function has no other of that name."""
    there, at_call = scope.lookup(name), module.scope(call).lookup(name)
    free = name not in module.scopes[function].bindings or name in given or _is_given(module, function, call, name)
    return there is not None and at_call is not None and there[0] is at_call[0] and free


def _rewrite(porting: Porting, function: cst.FunctionDef, call: cst.Call, handed: dict[str, list[str]]) -> None:
    """The parameters and the arguments: what is handed over stands where the part stood."""
    module, params = porting.module, [*function.params.posonly_params, *function.params.params]
    of_params: dict[int, list[str]] = {}
    for index, parameter in enumerate(params):
        if parameter.name.value in handed:
            optional = any(other.default is not None for other in params[: index + 1])
            names = handed[parameter.name.value]
            of_params[index] = [f"{name}=None" for name in names] if optional else names
    of_args: dict[int, list[str]] = {}
    for index, argument in enumerate(call.args):
        name = parameter_of(module, argument, call)
        if name in handed:
            of_args[index] = [f"{each}={each}" if argument.keyword is not None else each for each in handed[name]]
    _replace_items(porting, params, of_params)
    _replace_items(porting, call.args, of_args)


def _replace_items(porting: Porting, items: Sequence[cst.CSTNode], new: dict[int, list[str]]) -> None:
    """Items of a list of parameters or arguments become others, or go with their commas."""
    assert porting.trainer is not None
    spans = [porting.module.span(item) for item in items]
    first, last = min(new), max(new)
    kept = [[porting.module.text[start:end]] for start, end in spans]
    texts = [text for index in range(first, last + 1) for text in new.get(index, kept[index])]
    start, end = spans[first][0], spans[last][1]
    if not texts and last + 1 < len(items):
        end = spans[last + 1][0]
    elif not texts and first:
        start = spans[first - 1][1]
    porting.edit(start, end, ", ".join(texts), porting.trainer.rule, REASON)
