"""A function that holds a training loop and is given its parts: `train(model, loader, optimizer, scheduler)`.

The DataLoader, the optimizer and the schedule are no objects in the port. What they were made of is what the function
is given instead: `train(model, rows, total_steps)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from ..engine.script.fill_from_tables import short_name
from ..engine.script.following.rebound import set_between
from ..engine.script.porting import Porting
from ..engine.script.sites import Argument, Site
from ..source.calls import argument_of, calls_of, function_around, parameter_of
from ..source.module import Module
from ..source.scopes import Scope, first_parameter, walk

REASON, GONE = "what the loop's parts were made of", "Tunix's trainer has it"
NAMED = r"(?<![\w.]){}\b(?!\s*=[^=])"  # a name that code reads: no attribute, no keyword


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


def hand_over(porting: Porting, block: str, parts: Sequence[Site]) -> dict[str, str]:
    """Give the loop's function what new code reads of the parts, where it can't; say what it can't be given.

    What another method of its class made the parts of is kept on `self`: the names of that method, and how they are
    read then.
    """
    assert porting.trainer is not None and porting.loop is not None
    module, here = porting.module, porting.trainer.scope
    held, given = holder_of(porting), parameters_for(porting, parts)
    handed: dict[str, list[str]] = {name: [] for name in given}
    on_self: dict[str, str] = {}
    for site in parts:
        own, kept = self_of(site, here), []
        for argument in site.arguments:
            if _is_another(porting, argument, block, held[1] if held is not None else porting.loop.statement):
                message = f"{argument.text} is another one where the loop stands than {short_name(site)} was given."
                fix = "Give what is bound or set in between another name."
                porting.find(site.rule, "error", message, fix, argument.line, argument.column)
            for name in _out_of_reach(module, argument, here):
                known = {own, *on_self, *(each for names in handed.values() for each in names)}
                if name in known or not _reads(block, name):
                    continue
                attribute = _attribute(module, site.scope, own, name) if own and name not in here.bindings else None
                if attribute is not None:
                    on_self[name] = attribute
                    kept += [name] if not _times_set(module, attribute) else []
                    continue
                parameter = next((each for each, part in given.items() if part is site), next(iter(given), None))
                if held is None or parameter is None or not _can_be_given(module, *held, name, site.scope, given):
                    message = f"{name} can't be read where the loop stands, and {short_name(site)} was made of it."
                    fix = "Make the loop's DataLoader, optimizer and schedule in the function that holds the loop."
                    porting.find(site.rule, "error", message, fix, argument.line, argument.column)
                elif not _is_given(module, *held, name):
                    handed[parameter].append(name)
        if kept:
            lines = [f"{own}.{name} = {name}" for name in kept]
            porting.edit(*_whole_lines(porting, site, lines))
        elif own:
            porting.remove_statement(site.node, site.rule, GONE)
    if held is not None and given:
        _rewrite(porting, *held, handed)
    return on_self


def _is_another(porting: Porting, argument: Argument, block: str, loop: cst.CSTNode) -> bool:
    """Whether new code reads what an argument does, and that is set anew in front of the loop, or of the call that
    runs it; the loop's parts are what the port makes of them."""
    parts = {site.variable for site in porting.sites if site.variable is not None}
    found = [name for name in set_between(porting.module, argument.node, loop) if name not in parts]
    return any(_reads(block, name.partition("[")[0]) for name in found)


def respelled(code: str, on_self: Mapping[str, str]) -> str:
    """Code that reads the names of another method from `self`."""
    for name, attribute in on_self.items():
        code = re.sub(NAMED.format(re.escape(name)), attribute, code)
    return code


def self_of(site: Site, here: Scope) -> str:
    """`self`, where a part is an attribute that another method of the loop's class makes; else ""."""
    made, loop = site.scope.node, here.node
    methods = isinstance(made, cst.FunctionDef) and isinstance(loop, cst.FunctionDef) and made is not loop
    if not methods or site.scope.parent is not here.parent or here.parent is None:
        return ""
    assert isinstance(made, cst.FunctionDef) and isinstance(loop, cst.FunctionDef)
    own = first_parameter(made)
    is_attribute = own is not None and site.variable is not None and site.variable.startswith(f"{own}.")
    same = isinstance(here.parent.node, cst.ClassDef) and own == first_parameter(loop)
    return own if own is not None and same and is_attribute else ""


def _attribute(module: Module, scope: Scope, own: str, name: str) -> str | None:
    """The attribute of `self` that a method sets to a name of its own, and no other code sets: `self.rate` of
    `self.rate = lr`; a new one of the same name where it sets none. None where that means something else."""
    for node in walk(scope.node):
        for target, value in _set(node):
            held = isinstance(target, cst.Attribute) and module.code(target.value) == own
            if held and isinstance(value, cst.Name) and value.value == name:
                attribute = module.code(target)
                return attribute if _times_set(module, attribute) == 1 else None
    taken = scope.parent is not None and name in scope.parent.bindings
    taken = taken or any(module.code(node.value) == own for node in module.attributes_named(name))
    return None if taken else f"{own}.{name}"


def _times_set(module: Module, attribute: str) -> int:
    """In how many places an attribute of `self` is set."""
    own, _, name = attribute.partition(".")
    return sum(module.is_set(node) for node in module.attributes_named(name) if module.code(node.value) == own)


def _set(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Targets and values of an assignment, also of `self.lr, self.epochs = lr, epochs`."""
    if not isinstance(node, cst.Assign):
        return
    for each in node.targets:
        if isinstance(each.target, cst.Tuple) and isinstance(node.value, cst.Tuple):
            pairs = zip(each.target.elements, node.value.elements, strict=False)
            yield from ((target.value, value.value) for target, value in pairs)
        else:
            yield each.target, node.value


def _whole_lines(porting: Porting, site: Site, lines: Sequence[str]) -> tuple[int, int, str, str, str]:
    """The edit that puts lines in the place of a part's statement."""
    code = f"\n{site.indent}".join(lines)
    return site.statement_start, site.statement_end, code, site.rule, REASON


def _reads(block: str, name: str) -> bool:
    """Whether new code reads a name."""
    return re.search(NAMED.format(re.escape(name)), block) is not None


def _out_of_reach(module: Module, argument: Argument, here: Scope) -> Iterator[str]:
    """The names of an argument that mean something else, or nothing, where the loop stands."""
    for node in module.names_read(argument.node) if argument.node is not None else ():
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
    module, given = porting.module, function.params
    params = [*given.posonly_params, *given.params, *given.kwonly_params]
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


def _span(module: Module, item: cst.CSTNode) -> tuple[int, int]:
    """Where a parameter or an argument stands, with a parameter's default."""
    start, end = module.span(item)
    default = item.default if isinstance(item, cst.Param) else None
    return start, max(end, module.span(default)[1]) if default is not None else end


def _replace_items(porting: Porting, items: Sequence[cst.CSTNode], new: dict[int, list[str]]) -> None:
    """Items of a list of parameters or arguments become others, or go with their commas."""
    assert porting.trainer is not None
    spans = [_span(porting.module, item) for item in items]
    first, last = min(new), max(new)
    kept = [[porting.module.text[start:end]] for start, end in spans]
    texts = [text for index in range(first, last + 1) for text in new.get(index, kept[index])]
    start, end = spans[first][0], spans[last][1]
    if not texts and last + 1 < len(items):
        end = spans[last + 1][0]
    elif not texts and first:
        start = spans[first - 1][1]
    porting.edit(start, end, ", ".join(texts), porting.trainer.rule, REASON)
