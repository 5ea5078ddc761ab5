"""A notebook's cell that trains, samples or saves, and that ended with an error when the notebook was saved.

What the GPU run did behind it, nobody has seen; the port goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ....source.module import Module
from ....source.notebooks.ended_cells import Ended, ended_cells
from ...script.training import Training
from ...script.uses_of_training import role_uses
from ...steps.step import Phase, step

ACTS = {"train": "training", "evaluate": "evaluating", "predict": "evaluating"}  # of a trainer
SAMPLES, SAVES = "generate", ("save_", "push_to_hub")
SAID = "cells that are said to have ended"  # of the module's memory
FIX = "Run the cell again on the GPU, and compare, before you trust what the port does behind it."


@step(Phase.NAME, of="trainer")
def say_ended_cells(porting: Training) -> None:
    """A warning at each such cell, once for all trainers of the file."""
    module, site = porting.module, porting.trainer
    if module.notebook is None or site is None or not module.text.endswith(module.notebook.text):
        return
    said: set[int] = module.memory.setdefault(SAID, set())
    before = len(module.text) - len(module.notebook.text)
    for ended in ended_cells(module.notebook):
        if ended.cell.number in said or (ended.error == "NameError" and _is_bound(module, ended)):
            continue
        start, end = before + ended.cell.start, before + ended.cell.end
        line = module.line_column(start)[0] + ended.line - 1
        doing = _done_in(porting, max(start, module.offset(line, 1)), end)
        if not doing:
            continue
        said.add(ended.cell.number)
        error = f"{ended.error}: {ended.said}" if ended.said else ended.error
        error = error if error.endswith((".", "…")) else f"{error}."
        message = (
            f"The run that the notebook was saved with ended here, {doing} not done; the port goes on. It said {error}"
        )
        porting.find(site.rule, "warning", message, FIX, line, 1)


def _done_in(porting: Training, start: int, end: int) -> str:
    """What the script does in a span of its text, by a function that is called there, too: `training or saving`;
    empty where it is nothing of it."""
    module, site = porting.module, porting.trainer
    assert site is not None
    found = {
        word
        for node, word in [(site.node, "training"), *_acts(porting)]
        for last in _ends_of(module, node)
        if start < last <= end
    }
    return " and ".join(word for word in ("training", "evaluating", "sampling", "saving") if word in found)


def _acts(porting: Training) -> Iterator[tuple[cst.CSTNode, str]]:
    for use in role_uses(porting):
        if use.kind == "call":
            last = use.chain.rpartition(".")[2]
            if use.role == "trainer" and last in ACTS:
                yield use.outer, ACTS[last]
            elif last.endswith(SAMPLES):
                yield use.outer, "sampling"
            elif last.startswith(SAVES):
                yield use.outer, "saving"


def _ends_of(module: Module, node: cst.CSTNode, within: frozenset[cst.CSTNode] = frozenset()) -> Iterator[int]:
    """Where the code at the top level ends that runs a node."""
    around = next((up for up in module.ancestors(node) if isinstance(up, cst.FunctionDef)), None)
    if around is None:
        yield module.span(node)[1]
    elif around not in within:
        for use in module.references(around.name.value, module.scope(around)):
            yield from _ends_of(module, use, within | {around})


def _is_bound(module: Module, ended: Ended) -> bool:
    """Whether a name that a cell lacked is one of the notebook's: its cells ran in another order, or not at all."""
    return any(f"'{name}'" in ended.said for name in module.bound_names)
