"""How many processes the GPU run had, where the script asks for it: the port's answer is the GPU run's number.

Batch sizes, accumulation and learning rates are often calculated from it. On a TPU one process drives all chips, so
the environment would say 1 and the arithmetic would train something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from ....source.values import Unknown, evaluate
from ...script.porting import Porting
from ...steps.step import Phase, step
from .environment import use_of, variables
from .launcher_variables import answer_launcher_variables

RULE = "TP420"
VARIABLE = "WORLD_SIZE"
REASON = "the processes of the GPU run, by which its batches were calculated"


@step(Phase.ANSWER)
def apply_world_size(porting: Porting) -> None:
    """The GPU run's number of processes, and what its launcher set besides."""
    _fill_in_number(porting)
    answer_launcher_variables(porting)


def _fill_in_number(porting: Porting) -> None:
    """`os.environ.get("WORLD_SIZE", 1)` and its like become the GPU run's number of processes, as text."""
    if VARIABLE not in porting.module.text or not porting.options.active(RULE):
        return
    number = f'"{porting.known("mesh.processes", 1)}"'
    told = porting.given("mesh.processes")
    for node in _reads(porting):
        start, end = porting.module.span(node)
        if not told:
            line, column = porting.module.line_column(start)
            message = "WORLD_SIZE is not set on a TPU, so this calculates with the number for one process."
            porting.find(RULE, "warning", message, "Give --launch-config FILE or --processes N.", line, column)
            continue
        if any(edit.start <= start < edit.end for edit in porting.edits):
            text = re.escape(porting.module.code(node))
            porting.edits = [replace(edit, new=re.sub(text, number, edit.new)) for edit in porting.edits]
        else:
            porting.edit(start, end, number, RULE, REASON)


def _reads(porting: Porting) -> Iterator[cst.BaseExpression]:
    module = porting.module
    for call in module.calls:
        if module.qualified(call.func) in ("os.environ.get", "os.getenv") and call.args:
            if _is_variable(porting, call.args[0].value):
                yield call
    for node, key in variables(module):
        if use_of(module, node) == "read" and _is_variable(porting, key):
            yield node


def _is_variable(porting: Porting, node: cst.BaseExpression) -> bool:
    try:
        return bool(evaluate(porting.module, node) == VARIABLE)
    except Unknown:
        return False
