"""The gradient norm, which Tunix has of micro-batches alone, and of K and V where they are one tensor.

What it does: says at the keyword that the log lines have no `grad_norm` then, and warns of a callback that reads it.
Why: a norm of parts isn't that of the whole step, so that `rt.log_every` logs none.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import inside
from porter.packs.training import is_callback

PART_OF = "transformers"
RULE = "TP360"
NORM = "grad_norm"
LOGGED_SINCE = "4.38"
ACCUMULATION = "batch.accumulation"
LACKING = "the log lines have no grad_norm"


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_norm(porting: Porting) -> None:
    """A reason at the accumulation, or at `logging_steps` where K and V are fused, and a warning for callbacks."""
    steps = porting.value(ACCUMULATION)
    accumulates = steps is not None and not steps.is_literal(None, 1)
    if (
        porting.loop is not None
        or not (accumulates or porting.fuses)
        or is_before(porting, "transformers", LOGGED_SINCE)
    ):
        return
    when = "" if porting.fuses or (steps is not None and steps.known) else " where it is more than 1"
    if porting.known("log.strategy") != "no":
        suffix = ".gradient_accumulation_steps" if accumulates else ".logging_steps"
        for row in [row for row in porting.fields if row.source.endswith(suffix)]:
            said = f"{LACKING}{when}"
            porting.change_fate(row.source, reason=f"{row.reason}; {said}" if row.reason else said)
    module = porting.module
    if NORM not in module.text:
        return
    for node in module.parents:
        if isinstance(node, cst.ClassDef) and is_callback(module, node) and _reads_norm(node):
            what = "K and V that are one tensor" if not accumulates else "accumulated gradients"
            message = f"{node.name.value} reads grad_norm of the logs: the port doesn't log it with {what}{when}."
            fix = "Expect it empty, or take it out."
            porting.find(RULE, "warning", message, fix, *module.location(node), todo=False)


def _reads_norm(definition: cst.ClassDef) -> bool:
    return any(isinstance(node, cst.SimpleString) and node.evaluated_value == NORM for node in inside(definition))
