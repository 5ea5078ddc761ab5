"""What nothing uses any more once the sites are replaced: functions of a GPU library, device maps.

Only what the source itself used goes; something it never used is the user's.
"""

from __future__ import annotations

import re

import libcst as cst

from ...recipe import Finding
from ...source.merged import Merged
from ...source.module import Module
from ...source.scopes import Binding, Scope, walk
from ...text.edits import Spans
from ..script.porting import Porting
from ..script.sites import is_of_gpu_library
from ..steps.step import Phase, step

RULE = "TP001"
PLACED = ("device_map",)  # keywords that say where a torch model lies
# What the value of a device map may call; nothing of it does more than answer.
ASKS = re.compile(r"int|str|dict|os\.(getenv|environ\.get)")


@step(Phase.SETTLE, reads=("leftovers", "device maps"), fills=("functions",))
def drop_unused_functions(porting: Porting) -> None:
    """Take out functions of a GPU library that only replaced code called; repeated, as they call one another."""
    module = porting.module
    functions = _of_gpu_libraries(porting)
    if isinstance(module, Merged):  # those of modules are other scripts', too
        functions = [each for each in functions if module.span(each)[0] >= module.parts[-1].start]
    again = bool(functions)
    while again:
        spans = Spans((edit.start, edit.end) for edit in porting.edits)
        written = porting.written_words() | porting.options.imported
        again = False
        for function in functions:
            start, end = module.span(function)
            holder, name = module.scope(function), function.name.value
            if start in spans or name in written or len(holder.bindings.get(name, ())) != 1:
                continue
            uses = [use for use in module.references(name, holder) if not start <= module.span(use)[0] < end]
            gone = bool(uses) and all(module.span(use)[0] in spans for use in uses)
            if gone and not any(for_a_person(porting, use) for use in uses):
                porting.remove_statement(function, RULE, f"nothing calls {name} any more")
                again = True


def for_a_person(porting: Porting, use: cst.CSTNode) -> bool:
    """Whether a use stands in a statement that a person has to carry over, and needs the function to read."""
    module = porting.module
    start, end = module.span(module.statement(use))
    places = (module.offset(finding.line, finding.column) for finding in _errors(porting))
    return any(start <= place < end for place in places)


def _errors(porting: Porting) -> list[Finding]:
    return [finding for finding in porting.findings if finding.severity == "error" and finding.rule != "TP190"]


def _says_how(module: Module, decorator: cst.BaseExpression) -> bool:
    """Whether a decorator only says how a GPU library computes: `@torch.no_grad()`."""
    return is_of_gpu_library(module, decorator.func if isinstance(decorator, cst.Call) else decorator)


def _of_gpu_libraries(porting: Porting) -> list[cst.FunctionDef]:
    """The plain functions whose code or decorators name something of a GPU library, or such a function."""
    module = porting.module
    plain = [
        node
        for node in module.scopes
        if isinstance(node, cst.FunctionDef)
        and all(_says_how(module, decorator.decorator) for decorator in node.decorators)
        and not isinstance(module.scope(node).node, cst.ClassDef)
    ]
    found: list[cst.FunctionDef] = []
    while True:
        names = {function.name.value for function in found}
        more = [node for node in plain if node not in found and _names(module, node, names)]
        if not more:
            return found
        found += more


def _names(module: Module, function: cst.FunctionDef, names: set[str]) -> bool:
    if function.decorators:
        return True
    for node in walk(function.body):
        if isinstance(node, cst.Name) and node.value in names:
            return True
        if isinstance(node, cst.Name | cst.Attribute) and is_of_gpu_library(module, node):
            return True
    return False


@step(Phase.SETTLE, reads=("leftovers",), fills=("device maps",))
def drop_device_maps(porting: Porting) -> None:
    """Take out variables that only said where a torch model lies, and what was calculated for them alone."""
    module = porting.module
    pending = [
        (argument.value.value, module.scope(argument.value))
        for call in module.calls
        for argument in call.args
        if argument.keyword is not None and argument.keyword.value in PLACED and isinstance(argument.value, cst.Name)
    ]
    done: set[tuple[str, Scope]] = set()
    while pending:
        name, here = pending.pop(0)
        found = here.lookup(name)
        if found is None or (name, found[0]) in done:
            continue
        values = _unused(porting, name, *found)
        if values:
            done.add((name, found[0]))
        for value in values:
            porting.remove_statement(value, RULE, f"nothing uses {name} any more")
        gone = [part for value in values for part in (value, *_tests_around(porting, value))]
        names = [node for part in gone for node in walk(part) if isinstance(node, cst.Name)]
        pending += [(node.value, module.scope(node)) for node in names]


def _tests_around(porting: Porting, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The conditions that went with a value, as nothing else stood below them."""
    module = porting.module
    ifs = [node for node in module.ancestors(value) if isinstance(node, cst.If)]
    return [node.test for node in ifs if porting.covered(module.span(node)[0])]


def _unused(porting: Porting, name: str, scope: Scope, bindings: list[Binding]) -> list[cst.BaseExpression]:
    """The values of a variable that only replaced code reads; none where one of them does more than answer."""
    module = porting.module
    uses = [module.span(use)[0] for use in module.references(name, scope)]
    if name in porting.written_words() | porting.options.imported or not uses or not all(map(porting.covered, uses)):
        return []
    values = [value for binding in bindings if (value := _plain(porting, binding)) is not None]
    return values if len(values) == len(bindings) else []


def _plain(porting: Porting, binding: Binding) -> cst.BaseExpression | None:
    """The value of `name = value` that is no more than an answer."""
    module, node, value = porting.module, binding.node, binding.value
    alone = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
    new = (edit.start for edit in porting.edits if not edit.removes)
    if not alone or value is None or module.span(value)[0] in new:
        return None
    for part in walk(value):
        if isinstance(part, cst.Call) and not is_of_gpu_library(module, part.func):
            if not ASKS.fullmatch(module.qualified(part.func) or module.code(part.func)):
                return None
        if isinstance(part, cst.Await | cst.Yield | cst.NamedExpr):
            return None
    return value
