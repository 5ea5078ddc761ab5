"""WORLD_SIZE: the GPU run's number of processes, where the script reads it from its environment.

What it does: `os.environ.get("WORLD_SIZE", 1)` becomes the number that the launch config or `--processes` says.
Why: batch sizes and learning rates are calculated from it; on a TPU one process drives all chips and it is not set.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Unknown, evaluate

from ._environment import use_of, variables

ID = "TP420"
VARIABLE = "WORLD_SIZE"
REASON = "the processes of the GPU run, by which its batches were calculated"


@step(Phase.ANSWER, fills=("number of processes",))
def fill_in_number(porting: Porting) -> None:
    """`os.environ.get("WORLD_SIZE", 1)` and its like become the GPU run's number of processes, as text."""
    if VARIABLE not in porting.module.text:
        return
    number = f'"{porting.known("mesh.processes", 1)}"'
    told = porting.given("mesh.processes")
    for node in _reads(porting):
        start, end = porting.module.span(node)
        if not told:
            line, column = porting.module.line_column(start)
            message = "WORLD_SIZE is not set on a TPU, so this calculates with the number for one process."
            porting.find(ID, "warning", message, "Give --launch-config FILE or --processes N.", line, column)
            continue
        if porting.covered(start):
            porting.respell(porting.module.code(node), number)
        else:
            porting.edit(start, end, number, ID, REASON)


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
