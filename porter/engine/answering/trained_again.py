"""A trainer that trains more than once: transformers' starts anew at every call of train(), Tunix's is done.

    for epoch in range(3):
        trainer.train()
        report(trainer.evaluate())

trains three times under transformers, each with its own schedule from the weights, and the moments, of the one before.
"""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ...source.calls import function_around
from ..script.porting import Porting
from ..script.uses_of_training import role_uses
from ..steps.step import Phase, step

RULE = "TP111"
LEAVES = (cst.Return, cst.Raise, cst.Break, cst.Continue)


@step(Phase.NAME, of="trainer")
def say_trained_again(porting: Porting) -> None:
    """Name the first call of train() that comes again, in a loop around it or behind another one."""
    module, site = porting.module, porting.trainer
    if site is None or porting.loop is not None:
        return
    found = (use.outer for use in role_uses(porting, "trainer") if use.match == "@trainer.train()")
    calls = sorted((call for call in found if isinstance(call, cst.Call)), key=lambda call: module.span(call)[0])
    again = [call for call in calls if _repeats(porting, call)]
    again += [
        later for earlier, later in pairwise(calls) if later not in again and not _instead(porting, earlier, later)
    ]
    for call in sorted(again, key=lambda call: module.span(call)[0])[:1]:
        message = (
            "train() is called again here: transformers starts anew each time, from the weights and moments of the "
            "time before; Tunix's trainer has made its max_steps then, and trains nothing."
        )
        fix = "Train once with as many epochs, or make batches, optimizer and trainer anew for each time."
        porting.find(RULE, "error", message, fix, *module.location(call))


def _repeats(porting: Porting, call: cst.Call) -> bool:
    """Whether a loop that the trainer isn't made in goes around a call, and goes on behind it."""
    assert porting.trainer is not None
    made_in = set(porting.module.ancestors(porting.trainer.node))
    below: cst.CSTNode = call
    for ancestor in porting.module.ancestors(call):
        if isinstance(ancestor, cst.FunctionDef) or ancestor in made_in:
            return False
        if isinstance(ancestor, cst.For | cst.While):
            return True
        if isinstance(ancestor, cst.IndentedBlock) and _is_left(ancestor, below, (cst.Return, cst.Raise, cst.Break)):
            return False  # a loop that tries until it has trained
        below = ancestor
    return False


def _instead(porting: Porting, earlier: cst.Call, later: cst.Call) -> bool:
    """Whether the later call runs only where the earlier one didn't, or failed; other functions are not followed."""
    module = porting.module
    if function_around(module, earlier) is not function_around(module, later):
        return True
    around = [later, *module.ancestors(later)]
    below: cst.CSTNode = earlier
    for ancestor in module.ancestors(earlier):
        if ancestor in around:
            other = around[around.index(ancestor) - 1]
            if isinstance(ancestor, cst.Try | cst.TryStar):
                return isinstance(other, cst.ExceptHandler | cst.ExceptStarHandler)
            return isinstance(ancestor, cst.If | cst.IfExp) and below is not other
        if isinstance(ancestor, cst.IndentedBlock) and _is_left(ancestor, below, LEAVES):
            return True
        below = ancestor
    return False


def _is_left(block: cst.IndentedBlock, statement: cst.CSTNode, ways: tuple[type[cst.CSTNode], ...]) -> bool:
    """Whether a block is left behind one of its statements."""
    behind = block.body[block.body.index(statement) :] if statement in block.body else ()
    lines = [line for line in behind if isinstance(line, cst.SimpleStatementLine)]
    return any(isinstance(small, ways) for line in lines for small in line.body)
