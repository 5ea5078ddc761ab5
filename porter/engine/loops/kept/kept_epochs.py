"""Whether the loop over epochs stays in the port: it evaluates, saves or stops, or what it counts is read behind it.

for epoch in range(3):
    for batch in train_loader: ...           rt.train_epoch in its place
    val_loss = evaluate(model, val_loader)   stays, and so does what is made of it
    if val_loss < best:
        model.save_pretrained("best")

Where a line of it isn't understood, the whole loop is the trainer's, and what it loses is named.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ....source.module import Module
from ....source.scopes import inside, walk
from ...script.sites import Site
from ...script.training import Training
from ..besides.filled_names import read_behind
from ..statements.blocks import is_backward, last_name, lines_of
from ..statements.facts import Loop
from .carried_names import carried_names
from .evaluations import batch_of, calculates_with_tensors, outside, read_evaluations
from .facts import KeptEpochs

WORTH = {"evaluation", "saving", "stopping", "sampling"}


def kept_epochs(porting: Training, loop: Loop, trained: Site) -> KeptEpochs | None:
    """The loop over epochs as it stays, in which `trained` makes the batches; None where it goes whole."""
    module, statement = porting.module, loop.statement
    lines = lines_of(statement.body)
    batches = next((line for line in lines if isinstance(line, cst.For) and any(map(is_backward, walk(line)))), None)
    if not isinstance(statement, cst.For) or batches is None or loop.function is not None:
        return None
    if statement.orelse is not None or batches.orelse is not None or loop.max_steps is not None:
        return None
    beside = {left.what for left in loop.left if batches not in (left.node, *module.ancestors(left.node))}
    if not (beside & WORTH or any(read_behind(module, loop))) or any(left.what == "resuming" for left in loop.left):
        return None
    found = KeptEpochs(batches, trained)
    if not read_evaluations(porting, loop, found, [line for line in lines if line is not batches]):
        return None
    carried = carried_names(module, loop, batches, batch_of(module, batches))
    if carried is None or (not all(each.plain for each in carried) and calculates_with_tensors(module, loop, None)):
        return None
    found.carried = carried
    bars = _bars(module, batches, lines)
    found.gone = [line for line in lines if _is_trainers(module, loop, line) or _is_of_bar(module, line, bars)]
    left = [node for line in lines if line not in (batches, *found.gone) for node in inside(line)]
    if any(isinstance(node, cst.Name) and node.value in bars for node in left):
        return None
    found.dropout = _dropout(module, loop, found)
    return found


def _is_trainers(module: Module, loop: Loop, line: cst.CSTNode) -> bool:
    """`scheduler.step()` once an epoch, and a sampler's `set_epoch(epoch)`, which the trainer and its batches do."""
    call = line.value if isinstance(line, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    steps = bool(loop.scheduler) and module.code(call) == f"{loop.scheduler}.step()"
    return steps or last_name(call.func) == "set_epoch"


def _bars(module: Module, batches: cst.For, lines: Sequence[cst.CSTNode]) -> set[str]:
    """Names of progress bars around the loader: `bar = tqdm(train_loader)`, `for batch in bar`."""
    drawn = {node.value for node in walk(batches.iter) if isinstance(node, cst.Name)}
    made = [line for line in lines if isinstance(line, cst.Assign) and isinstance(line.value, cst.Call)]
    return {
        target.value
        for line in made
        if isinstance(line.value, cst.Call) and last_name(line.value.func) == "tqdm"
        for target in (line.targets[0].target,)
        if isinstance(target, cst.Name) and target.value in drawn
    }


def _is_of_bar(module: Module, line: cst.CSTNode, bars: set[str]) -> bool:
    """The line that makes a bar, and `bar.close()`."""
    if isinstance(line, cst.Assign):
        return module.code(line.targets[0].target) in bars
    call = line.value if isinstance(line, cst.Expr) else None
    owner = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None
    return owner is not None and module.code(owner) in bars


def _dropout(module: Module, loop: Loop, found: KeptEpochs) -> str:
    """Why the port's losses are only those of a model without dropout: it doesn't go off, or not on again."""
    if not found.evaluated:
        return ""
    modes: set[str] = set()
    for call in (node for node in inside(loop.statement) if isinstance(node, cst.Call)):
        function = module.callees.get(call)
        places = [(call, None), *((each, call) for each in inside(function.body))] if function else [(call, None)]
        for each, by in places:
            if isinstance(each, cst.Call) and isinstance(each.func, cst.Attribute):
                modes |= {each.func.attr.value} if outside(module, each.func.value, by) == loop.model else set()
    if "eval" not in modes:
        return "The loop evaluates without model.eval(), with dropout on"
    return (
        "" if "train" in modes else "The loop doesn't go back to model.train(): its later epochs train without dropout"
    )
