"""The generators that a script seeds: torch's, by which the first weights of its adapters are drawn, and Python's.

torch.manual_seed(args.seed)
model = get_peft_model(model, config)     drawn by args.seed

The last call that comes before the adapters in the order of the run seeds them, wherever it stands: above them in their
function, in front of the call of that function, in a function that is called there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from ...source.calls import argument_of, calls_of, function_around
from ...source.module import Module
from ...source.scopes import Scope, first_parameter
from ...source.values import Unknown, evaluate
from ...text.expressions import names_in
from .sites import Site, facts_of
from .training import Training, in_reach

SEEDING = "the calls that seed torch"  # of the module's memory
DRAWS = frozenset(  # functions that draw from Python's own generator
    f"random.{name}"
    for name in "sample shuffle choice choices randint randrange random uniform gauss betavariate getrandbits".split()
)
WRITE_SEED = "Write it there, to start other runs from other adapters."
MAX_CALLS = 8  # functions between a seed and what is drawn by it
AROUND = (cst.If, cst.For, cst.While, cst.Try, cst.TryStar, cst.IfExp)
# How a seed's code tells what is drawn by where it seeds only under a test of it.
GIVEN, TRUE, UNKNOWN = "{0} if {0} is not None else {1}", "{0} or {1}", "?"


@dataclass(frozen=True)
class Seeding:
    """A call that seeds torch: its seed, in the names that are known there, and what is drawn by if it doesn't."""

    call: cst.Call
    code: str
    unless: str = ""


@dataclass(frozen=True)
class Seeded:
    """The code of the seed at a site, "" for none; `unread` the call that seeds it where the site can't have its
    seed."""

    code: str = ""
    unread: str = ""


def draws_from_python(module: Module) -> bool:
    """Whether a script seeds Python's generator and draws from it itself, and `random` is that module there."""
    called = {module.qualified(call.func) for call in module.calls}
    found = module.scopes[module.tree].lookup("random")
    named = found is None or any(item.qualified == "random" for item in found[1])
    return bool(called & {"random.seed", *facts_of(module).seeds_python}) and bool(called & DRAWS) and named


def seed_given(training: Training, site: Site, otherwise: str) -> Seeded:
    """The last seed that torch is given before it comes to `site`; `otherwise` is that of a run without one."""
    module = training.module
    for place, path in _places(module, site.node):
        function = function_around(module, place)
        before = [found for found in _seeding(module) if _comes_before(module, found.call, place, function)]
        before += _of_constructor(module, function)
        for found in before:
            unless = found.unless or _unless(module, found, place)
            code = _inwards(training, found, path, site) if unless != UNKNOWN else ""
            if not code:
                return Seeded(unread=" ".join(module.code(found.call).split()))
            return Seeded(unless.format(code, otherwise) if unless else code)
    return Seeded()


def say_unread_seed(training: Training, site: Site, call: str, taken: str) -> None:
    """Tell that adapters are drawn by another seed than the script's."""
    message = f"The adapters start from seed {taken}: that of {call}, by which the source drew them, is not known here."
    training.find(site.rule, "info", message, WRITE_SEED, site.line, site.column)


def _places(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]]:
    """A place, the first call of the function that it stands in, and so on to the file's own lines, with the calls on
    the way."""
    path: tuple[cst.CSTNode, ...] = ()
    while len(path) <= MAX_CALLS:
        yield node, path
        function = function_around(module, node)
        if function is None:
            return
        name, scope = function.name.value, module.scope(function)
        uses: Sequence[cst.CSTNode] = calls_of(module, function) or module.references(name, scope)
        outer = [use for use in uses if function not in module.ancestors(use) and use not in path]
        if not outer:
            return
        node = outer[0]
        path = (*path, node)


def _comes_before(module: Module, call: cst.Call, place: cst.CSTNode, function: cst.FunctionDef | None) -> bool:
    return function_around(module, call) is function and module.span(call)[1] <= module.span(place)[0]


def _of_constructor(module: Module, method: cst.FunctionDef | None) -> list[Seeding]:
    """What the constructor of a method's class seeds: its objects are made before the method is called."""
    holder = module.scope(method) if method is not None else None
    if method is None or holder is None or not isinstance(holder.node, cst.ClassDef):
        return []
    made = [binding.node for binding in holder.bindings.get("__init__", ())]
    found = [found for found in _seeding(module) if method not in made and function_around(module, found.call) in made]
    kept = {
        bindings[0].value.value: f"{first_parameter(method)}.{name}"
        for name, bindings in holder.attributes.items()
        if len(bindings) == 1 and isinstance(bindings[0].value, cst.Name)
    }
    return [replace(each, code=_all_renamed(each.code, kept)) for each in found]


def _all_renamed(code: str, names: Mapping[str, str]) -> str:
    for name in names_in(code) & names.keys():
        code = _renamed(code, name, names[name])
    return code


def _seeding(module: Module) -> list[Seeding]:
    """The calls of a file that seed torch, themselves or by functions of the file: the last first."""
    if SEEDING not in module.memory:
        seeds = facts_of(module).seeds
        direct = [call for call in module.calls if call.args and module.qualified(call.func) in seeds]
        found = [Seeding(call, _plain(module, call.args[0].value)) for call in direct]
        pending = [*found]
        while pending and len(found) < 100:
            inner = pending.pop()
            function = function_around(module, inner.call)
            unless = inner.unless or _unless(module, inner, None)
            for call in calls_of(module, function) if function is not None else ():
                outer = _outwards(module, replace(inner, unless=unless), call)
                if all(each.call is not call for each in found):
                    found.append(outer)
                    pending.append(outer)
        module.memory[SEEDING] = sorted(found, key=lambda each: module.span(each.call)[0], reverse=True)
    seeding: list[Seeding] = module.memory[SEEDING]
    return seeding


def _plain(module: Module, value: cst.BaseExpression) -> str:
    """A seed's code: its number where that is known."""
    try:
        known = evaluate(module, value)
    except Unknown:
        return module.code(value)
    return repr(known) if isinstance(known, int) and not isinstance(known, bool) else ""


def _outwards(module: Module, inner: Seeding, call: cst.Call) -> Seeding:
    """A seed as the caller of the function knows it: in what it gives for the parameters."""
    function = module.callees[call]
    scope, code = module.scopes[function], inner.code
    for name in names_in(code) & scope.bindings.keys():
        given: str | None = None
        if name == first_parameter(function) and isinstance(module.scope(function).node, cst.ClassDef):
            given = module.code(call.func.value) if isinstance(call.func, cst.Attribute) else None
        elif all(binding.kind == "parameter" for binding in scope.bindings[name]):
            argument = argument_of(module, call, name)
            given = _plain(module, argument) if argument is not None else None
        if not given:
            return Seeding(call, "", UNKNOWN)
        code = _renamed(code, name, given)
    return Seeding(call, code, inner.unless)


def _renamed(code: str, name: str, new: str) -> str:
    new = new if re.fullmatch(r"[\w.]+", new) or code == name else f"({new})"
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", lambda _: new, code)


def _unless(module: Module, found: Seeding, place: cst.CSTNode | None) -> str:
    """What is drawn by where a call's `if` isn't taken: "" where it surely seeds before `place`, or in its function."""
    inner = {*module.ancestors(place)} if place is not None else set()
    below: cst.CSTNode = found.call
    tests = []
    for item in module.ancestors(found.call):
        if isinstance(item, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            break
        if isinstance(item, AROUND) and item not in inner:
            tests.append(item.test if isinstance(item, cst.If) and below is item.body else None)
        below = item
    if not tests:
        return ""
    code = module.code(tests[0]) if len(tests) == 1 and tests[0] is not None else ""
    return {found.code: TRUE, f"{found.code} is not None": GIVEN}.get(code, UNKNOWN) if code else UNKNOWN


def _inwards(training: Training, found: Seeding, path: Sequence[cst.CSTNode], site: Site) -> str:
    """A seed's code in the names of the site, which the calls on the way hand on; "" where they don't."""
    module, code, scope = training.module, found.code, training.module.scope(found.call)
    changed = module.span(found.call)[0]
    for use in reversed(path):
        function = module.callees.get(use) if isinstance(use, cst.Call) else None
        handed = _handed(module, use, function) if isinstance(use, cst.Call) and function is not None else {}
        inner = module.scopes[function] if function is not None else site.scope
        if code in handed:
            code, scope = handed[code], inner
            continue
        for name in names_in(code):
            if _is_local(scope, name):
                if name not in handed:
                    return ""
                code = _renamed(code, name, handed[name])
        scope = inner
    return code if "\n" not in code and _is_known(module, code, scope, site, changed) else ""


def _handed(module: Module, call: cst.Call, function: cst.FunctionDef) -> dict[str, str]:
    """The parameters of a function by the code that a call gives for them."""
    scope = module.scopes[function]
    names = [name for name, bindings in scope.bindings.items() if all(each.kind == "parameter" for each in bindings)]
    given = {name: argument_of(module, call, name) for name in names}
    return {module.code(value): name for name, value in given.items() if value is not None}


def _is_local(scope: Scope, name: str) -> bool:
    found = scope.lookup(name)
    return found is not None and isinstance(found[0].node, cst.FunctionDef | cst.Lambda)


def _is_known(module: Module, code: str, scope: Scope, site: Site, since: int) -> bool:
    """Whether the names of a seed's code mean at the site what they did where torch was given it."""
    for name in names_in(code):
        found, meant = site.scope.lookup(name), scope.lookup(name)
        if found is None:
            return False
        if found != meant and not _are_objects(found[0], meant[0] if meant is not None else None, name):
            return False
        if any(module.span(binding.node)[0] > since for binding in found[1] if binding.kind != "parameter"):
            return False
    return in_reach(scope, site.scope) or all(_is_self(scope, name) for name in names_in(code))


def _are_objects(one: Scope, other: Scope | None, name: str) -> bool:
    """Whether a name is the object of the same class in two of its methods."""
    return other is not None and one.parent is other.parent and _is_self(one, name) and _is_self(other, name)


def _is_self(scope: Scope, name: str) -> bool:
    method, holder = scope.node, scope.parent.node if scope.parent is not None else None
    if not isinstance(method, cst.FunctionDef) or not isinstance(holder, cst.ClassDef):
        return False
    return first_parameter(method) == name
