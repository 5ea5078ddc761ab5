"""The gradient norm, which Tunix has of micro-batches alone, and of K and V where they are one tensor.

What it does: says at the keyword, or at the trainer where the script has none, that the log lines have no `grad_norm`
then, and warns of a callback that reads it.
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
    accumulates = (steps is not None or bool(porting.arguments_object)) and not (steps and steps.is_literal(None, 1))
    if (
        porting.loop is not None
        or not (accumulates or porting.fuses)
        or is_before(porting, "transformers", LOGGED_SINCE)
    ):
        return
    when = "" if porting.fuses or (steps is not None and steps.known) else " where it is more than 1"
    if porting.known("log.strategy") != "no":
        suffix = ".gradient_accumulation_steps" if accumulates else ".logging_steps"
        said = f"{LACKING}{when}"
        rows = [row for row in porting.fields if row.source.endswith(suffix)]
        site = porting.trainer
        if not rows and site is not None:  # settings of a YAML, a parser, a dictionary
            lines = said.replace(" it ", " gradient_accumulation_steps ").capitalize()
            lines += f": Tunix has the norm of {_what(accumulates)}."
            porting.find(RULE, "info", lines, "", site.line, site.column)
        for row in rows:
            porting.change_fate(row.source, reason=f"{row.reason}; {said}" if row.reason else said)
    module = porting.module
    if NORM not in module.text:
        return
    for node in module.parents:
        if isinstance(node, cst.ClassDef) and is_callback(module, node) and _reads_norm(node):
            what = "accumulated gradients" if accumulates else "K and V that are one tensor"
            message = f"{node.name.value} reads grad_norm of the logs: the port doesn't log it with {what}{when}."
            fix = "Expect it empty, or take it out."
            porting.find(RULE, "warning", message, fix, *module.location(node), todo=False)


def _what(accumulates: bool) -> str:
    return "micro-batches alone" if accumulates else "K and V as one"


def _reads_norm(definition: cst.ClassDef) -> bool:
    return any(isinstance(node, cst.SimpleString) and node.evaluated_value == NORM for node in inside(definition))
