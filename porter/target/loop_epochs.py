"""A training loop whose epochs stay: Tunix's trainer makes those of one, and what was evaluated gives its losses."""

from __future__ import annotations

import re

import libcst as cst

from ..engine.loops.kept.facts import Carried, Evaluated, KeptEpochs
from ..engine.receipts.marking import mark_keywords
from ..engine.script.porting import Porting
from ..engine.script.sites import Site, indentation
from ..engine.settling.kept_branch import keep_block
from ..recipe import Severity
from ..text.edits import line_end, whole_lines
from ..text.layout import Arg, Call, render

LEADS, LOSS = "rt.EvaluationLosses computes a batch's loss", "the batch's loss"
RATE = re.compile(r"""\.(?:get_last_lr\(\)\[0\]|param_groups\[0\]\[["']lr["']\])""")
COUNTS = ("batches", "steps", "number")
TRAINS = "Tunix's trainer makes the steps of the epoch"


def write_epochs(porting: Porting, kept: KeptEpochs, processes: int) -> str:
    """Edit the loop over epochs, and the lines that stand in front of it: the losses of what it evaluates."""
    site = porting.trainer
    assert site is not None
    _train_epoch(porting, kept)
    for line in kept.gone:
        porting.remove_statement(line, site.rule, "the trainer's schedule steps with the optimizer")
    for evaluated in kept.evaluated:
        _evaluate(porting, evaluated)
    _say(porting, kept, processes)
    _close(porting, site)
    lines = [_losses_of(porting, name, loader) for name, loader in kept.loaders.items()]
    return "".join(f"{line}\n{site.indent}" for line in lines)


def _close(porting: Porting, site: Site) -> None:
    """The trainer closes behind the loop, whatever becomes of its last line."""
    assert porting.loop is not None
    text = porting.module.text
    end = line_end(text, porting.module.span(porting.loop.statement)[1])
    code = f"{site.indent}{porting.names.trainer}.close()\n"
    porting.edit(end, end, code if text[end - 1] in "\r\n" else f"\n{code}", site.rule, "behind the last epoch")


def _losses_of(porting: Porting, name: str, loader: Site) -> str:
    """`val_loader = rt.EvaluationLosses(trainer, batches.evaluation(val_dataset, batch_size=8))`."""
    site, names = porting.trainer, porting.names
    rows, size = loader.argument("dataset"), loader.argument("batch_size")
    assert site is not None and rows is not None
    asked = mark_keywords(porting, loader, *(argument.name for argument in loader.arguments))
    given = [Arg(rows.text), Arg(size.text if size is not None else "1", "batch_size")]
    call = Call(
        asked + porting.rt("EvaluationLosses"), [Arg(names.trainer), Arg(Call(f"{names.batches}.evaluation", given))]
    )
    return f"{name} = {render(call, site.indent, porting.module.indent, len(name) + 3)}"


def _train_epoch(porting: Porting, kept: KeptEpochs) -> None:
    """The loop over batches becomes a call, and the names that it filled get what they are read for."""
    module, names, site = porting.module, porting.names, porting.trainer
    assert site is not None
    start, end = module.span(kept.batches)
    indent = indentation(module.text, start)
    losses = porting.fresh("losses", "step_losses") if any(each.what not in COUNTS for each in kept.carried) else ""
    call = f"{porting.rt('train_epoch')}({names.trainer}, {names.batches})"
    lines = [f"with {names.mesh}:", f"{module.indent}{losses} = {call}" if losses else f"{module.indent}{call}"]
    lines += [_filled(porting, each, losses) for each in kept.carried]
    porting.edit(start, end, f"\n{indent}".join(lines), site.rule, TRAINS)


def _filled(porting: Porting, carried: Carried, losses: str) -> str:
    """What a name of the source is given behind an epoch's steps."""
    name, batches = carried.name, porting.names.batches
    accumulation = porting.value("batch.accumulation")
    one = accumulation is None or accumulation.is_literal(1)
    if carried.what == "sum" and not one:
        return f"{name} += {losses}.sum() * {porting.text('batch.accumulation')}"
    return {
        "sum": f"{name} += {losses}.sum()",
        "shares": f"{name} += {losses}.sum()",
        "list": f"{name}.extend({losses}.tolist())",
        "last": f"{name} = {losses}[-1]",
        "batches": f"{name} += {batches}.gpu_batches",
        "steps": f"{name} += {batches}.steps_per_epoch",
        "number": f"{name} = {batches}.gpu_batches - 1",
    }[carried.what]


def _evaluate(porting: Porting, evaluated: Evaluated) -> None:
    """The loop over a validation loader is one over its losses."""
    module, site = porting.module, porting.trainer
    assert site is not None
    parts = set(evaluated.parts)
    porting.edit(*module.span(evaluated.target), evaluated.name, site.rule, LOSS)
    for use in evaluated.uses:
        code = evaluated.name
        if use in evaluated.tensors:  # which has `item()`
            porting.imports.add("import numpy as np")
            code = f"np.float64({code})"
        if module.code(use) != code:
            porting.edit(*module.span(use), code, site.rule, LOSS)
    for part in parts:
        porting.remove_statement(part, site.rule, LEADS)
    _without_gradients(porting, evaluated)


def _without_gradients(porting: Porting, evaluated: Evaluated) -> None:
    """`with torch.no_grad():` in and around the loop goes, and so does the decorator of that name."""
    module, site = porting.module, porting.trainer
    assert site is not None
    inner = [node for node in module.parents if isinstance(node, cst.With) and evaluated.loop in module.ancestors(node)]
    outer = [node for node in module.ancestors(evaluated.loop) if isinstance(node, cst.With)]
    for node in (*inner, *outer):
        if all(_is_without_gradients(module.code(item.item)) for item in node.items):
            head = module.span(node.items[-1])[1]
            if not keep_block(porting, node, node.body, head, site.rule, "no gradients are computed here"):
                porting.imports.add("import contextlib")
                start, end = module.span(node.items[0])[0], head
                porting.edit(start, end, "contextlib.nullcontext()", site.rule, "no gradients are computed here")
    decorators = evaluated.function.decorators if evaluated.function is not None else ()
    for decorator in decorators:
        if _is_without_gradients(module.code(decorator.decorator)):
            start, end = whole_lines(module.text, *module.span(decorator))
            porting.edit(start, end, "", site.rule, "no gradients are computed here")


def _is_without_gradients(code: str) -> bool:
    return code.split("(")[0].rpartition(".")[2] in ("no_grad", "inference_mode", "autocast")


def _say(porting: Porting, kept: KeptEpochs, processes: int) -> None:
    """What of the evaluations can't be told to be the source's."""
    site = porting.trainer
    assert site is not None
    dropout = porting.value("lora.dropout")
    if kept.dropout and porting.lora is not None and not (dropout is not None and dropout.is_literal(0, 0.0)):
        message = f"{kept.dropout}; the port's losses of evaluation have none, and its training has it."
        porting.find(site.rule, "error", message, "Call both, or leave dropout out.", site.line, site.column)
    if processes > 1 and (kept.evaluated or kept.carried):
        message = f"Each of the {processes} GPU processes computed the losses of its own rows; the port's are of all."
        severity: Severity = "error" if kept.evaluated else "warning"
        porting.find(site.rule, severity, message, "Look at what is made of them.", site.line, site.column)


def asks_rate(porting: Porting, name: cst.CSTNode) -> cst.BaseExpression | None:
    """`scheduler.get_last_lr()[0]` and `optimizer.param_groups[0]["lr"]` of a part's name, where epochs that stay, or
    what stands behind them, ask for the learning rate."""
    module, loop = porting.module, porting.loop
    if loop is None or loop.kept is None or loop.scheduled_by_epoch or not _is_behind_trainer(porting, name):
        return None
    node = name
    while isinstance(module.parents[node], cst.Attribute | cst.Call | cst.Subscript):
        node = module.parents[node]
    read = RATE.fullmatch(module.code(node).removeprefix(module.code(name)))
    return node if read is not None and isinstance(node, cst.BaseExpression) else None


def _is_behind_trainer(porting: Porting, name: cst.CSTNode) -> bool:
    """Whether a line stands where the trainer is made: in the loop, or behind it in its function."""
    site = porting.trainer
    assert site is not None
    return porting.module.scope(name) is site.scope and porting.module.span(name)[0] >= site.statement_end
