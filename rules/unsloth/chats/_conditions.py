"""Under which condition a line behind the trainer runs, in the names of the trainer's place."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Site
from porter.packs.script import Module, Unknown, evaluate, inside, may_have_left
from porter.packs.training import Training, in_reach

NEVER = "False"
# What makes a line run another number of times, or at another time.
UNCLEAR = (cst.For, cst.While, cst.CompFor, cst.Lambda, cst.ExceptHandler, cst.BooleanOperation, cst.Finally)


def condition_at(porting: Training, trainer: Site, node: cst.CSTNode) -> str | None:
    """The code of what has to hold for `node` to run, as it can stand at the trainer; "" where nothing has to.

    None where that can't be said there: names that are set later, loops, another function's conditions, what may have
    left before.
    """
    module, made = porting.module, {*porting.module.ancestors(trainer.node)}
    below, parts = node, list[str]()
    if may_have_left(module, trainer.start, node):
        return None
    for holder in module.ancestors(node):
        if holder in made:
            break
        if isinstance(holder, cst.If | cst.IfExp) and below is not holder.test:
            holds = below is holder.body
            known = _known(module, holder.test)
            if known is not None and known is not holds:
                return NEVER
            if known is None and not _is_readable(porting, trainer, holder.test):
                return None
            code = module.code(holder.test)
            several = isinstance(holder.test, cst.BooleanOperation | cst.IfExp | cst.NamedExpr)
            code = f"({code})" if several and not code.startswith("(") else code
            parts += [] if known is not None else [code if holds else f"not {code}"]
        elif isinstance(holder, (*UNCLEAR, cst.FunctionDef)):
            return None
        below = holder
    return " and ".join(reversed(parts))


def _known(module: Module, test: cst.BaseExpression) -> bool | None:
    try:
        return bool(evaluate(module, test))
    except Unknown:
        return None


def _is_readable(porting: Training, trainer: Site, test: cst.BaseExpression) -> bool:
    """Whether the names of a condition mean at the trainer what they do behind it."""
    module = porting.module
    if any(isinstance(part, cst.NamedExpr | cst.Await) for part in inside(test)) or "\n" in module.code(test):
        return False
    names = [part for part in inside(test) if isinstance(part, cst.Name)]
    if any(name.value == trainer.variable for name in names):
        return False
    meanings = [module.meaning(name) for name in names if not module.is_member(name)]
    return all(
        found is None
        or (in_reach(found[0], trainer.scope) and all(module.span(each.node)[0] < trainer.start for each in found[1]))
        for found in meanings
    )
