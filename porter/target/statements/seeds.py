"""The generators that a script seeds: torch's, by which the first weights of its adapters are drawn, and Python's.

torch.manual_seed(args.seed)
model = get_peft_model(model, config)     drawn by args.seed
"""

from __future__ import annotations

import libcst as cst

from ...engine.script.porting import Porting
from ...engine.script.sites import Site, facts_of
from ...engine.script.training import in_reach
from ...source.calls import argument_of, calls_of, function_around
from ...source.module import Module
from ...source.values import Unknown, evaluate
from ...text.expressions import names_in

SEEDING = "the calls that seed torch"  # of the module's memory
DRAWS = frozenset(
    f"random.{name}"
    for name in "sample shuffle choice choices randint randrange random uniform gauss betavariate getrandbits".split()
)


def draws_from_python(module: Module) -> bool:
    """Whether a script seeds Python's generator and draws from it itself, and `random` is that module there."""
    called = {module.qualified(call.func) for call in module.calls}
    found = module.scopes[module.tree].lookup("random")
    named = found is None or any(item.qualified == "random" for item in found[1])
    return bool(called & {"random.seed", *facts_of(module).seeds_python}) and bool(called & DRAWS) and named


def seed_given(porting: Porting, site: Site) -> str:
    """The code of the last seed that stands above `site` and holds there; "" for none.

    Given by a library's function, or by a function of the file that hands its parameter on to one.
    """
    module = porting.module
    here = function_around(module, site.node)
    for call, value in _seeding(module):
        around = function_around(module, call)
        if module.span(call)[1] > site.start or around not in (here, None) or _is_behind_a_test(porting, call, site):
            continue
        if code := _code(porting, value, site):
            return code
    return ""


def _seeding(module: Module) -> list[tuple[cst.Call, cst.BaseExpression]]:
    """The calls of a file that seed torch, with what they give it: the last first."""
    if SEEDING not in module.memory:
        seeds = facts_of(module).seeds
        direct = [call for call in module.calls if call.args and module.qualified(call.func) in seeds]
        found = [(call, call.args[0].value) for call in direct]
        for inner in direct:
            function, given = function_around(module, inner), inner.args[0].value
            if function is None or not isinstance(given, cst.Name):
                continue
            values = [(call, argument_of(module, call, given.value)) for call in calls_of(module, function)]
            found += [(call, value) for call, value in values if value is not None]
        module.memory[SEEDING] = sorted(found, key=lambda each: module.span(each[0])[0], reverse=True)
    seeding: list[tuple[cst.Call, cst.BaseExpression]] = module.memory[SEEDING]
    return seeding


def _code(porting: Porting, value: cst.BaseExpression, site: Site) -> str:
    """A seed's code where its names mean the same at the site, as they do in the function around and above it."""
    module = porting.module
    try:
        known = evaluate(module, value)
    except Unknown:
        known = None
    if known is not None:
        return repr(known) if isinstance(known, int) and not isinstance(known, bool) else ""
    code = module.code(value)
    for name in names_in(code):
        found = site.scope.lookup(name)
        if found is None or found != module.scope(value).lookup(name):
            return ""
        start = module.span(value)[0]
        if any(module.span(binding.node)[0] > start for binding in found[1] if binding.kind != "parameter"):
            return ""
    whole = "\n" not in code and in_reach(module.scope(value), site.scope)
    return code if whole else ""


def _is_behind_a_test(porting: Porting, call: cst.Call, site: Site) -> bool:
    """Whether a call stands in an `if` or a loop that the site isn't in: what it seeds may not be."""
    around = set(porting.module.ancestors(site.node))
    kinds = (cst.If, cst.For, cst.While, cst.Try, cst.IfExp)
    return any(isinstance(item, kinds) and item not in around for item in porting.module.ancestors(call))
