"""A training loop written by hand: Tunix's trainer stands where it stood, and what it was made of goes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import libcst as cst

from ..engine.loops.parts import loop_parts, read_groups
from ..engine.script.fill_from_tables import bindings_of
from ..engine.script.porting import Porting
from ..engine.script.sites import Site, shown
from ..source.module import Module
from . import causal_lm
from .loop_epochs import asks_rate, write_epochs
from .loop_parameters import GONE, hand_over, holder_of, parameters_for, respelled, self_of
from .statements.common_statements import Writing


def loop_block(porting: Porting, writing: Writing) -> str:
    """The statements that replace the loop: data, adapters, optimizer, trainer, and its call."""
    site = porting.trainer
    assert site is not None
    porting.names.trainer = porting.fresh("trainer")
    parts = _remove_parts(porting)
    given = parameters_for(porting, parts)
    names, step = porting.names, porting.module.indent
    block = _counted(porting, causal_lm.trainer_block(porting, writing), given, parts[0])
    kept = porting.loop.kept if porting.loop is not None else None
    losses = write_epochs(porting, kept, writing.processes) if kept is not None else ""
    on_self = hand_over(porting, f"{block}\n{losses}", parts)
    block = respelled(block, on_self)
    _answer_uses(porting, parts, given, on_self)
    if kept is not None:
        return f"{block}\n{site.indent}{respelled(losses, on_self)}"
    call = f"with {names.mesh}:\n{site.indent}{step}{names.trainer}.train({names.batches})"
    return f"{block}\n{site.indent}{call}"


def _remove_parts(porting: Porting) -> list[Site]:
    """The optimizer, the schedule, the DataLoader and accelerate's `prepare` go with the loop that used them."""
    loader, optimizer, schedule = loop_parts(porting)
    parts = [part for part in (loader, optimizer, schedule, *_evaluated(porting)) if part is not None]
    site = porting.trainer
    assert site is not None
    for part in parts:
        if not self_of(part, site.scope):  # else what it was made of is kept
            porting.remove_statement(part.node, part.rule, GONE)
    for call in porting.module.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "prepare" and _takes(porting, call, parts):
            porting.remove_statement(call, optimizer.rule, "the mesh says where everything lies")
    params = optimizer.argument("params")
    groups = read_groups(porting.module, params.node) if params is not None else None
    if groups is not None and groups.held is not None:
        porting.remove_statement(groups.held.node, optimizer.rule, "the mask says which weights don't decay")
    if porting.loop is not None and porting.loop.function is not None:
        porting.remove_statement(porting.loop.function, optimizer.rule, "the trainer trains the epochs")
    _let_go(porting, parts)
    return parts


def _evaluated(porting: Porting) -> list[Site]:
    """The DataLoaders whose losses the port computes."""
    kept = porting.loop.kept if porting.loop is not None else None
    return list(dict.fromkeys(kept.loaders.values())) if kept is not None else []


def _answer_uses(
    porting: Porting, parts: Sequence[Site], given: Mapping[str, Site], on_self: Mapping[str, str]
) -> None:
    """What stays and asks for the DataLoader, the optimizer or the schedule, by their names and as parameters."""
    held = holder_of(porting)
    for part in parts:
        owner = part.scope.parent if part.variable is not None and "." in part.variable else part.scope
        found = porting.module.references(part.variable or "", owner) if part.variable and owner is not None else []
        uses: list[cst.CSTNode] = [*found]
        for name in [name for name, site in given.items() if site is part and held is not None]:
            assert held is not None
            uses += [use for use in porting.module.references(name, porting.module.scopes[held[0]])
                     if not isinstance(porting.module.parents[use], cst.Param)]  # fmt: skip
        if part in _evaluated(porting):
            _count_batches(porting, part, [use for use in uses if not _has_losses(porting, use)], given, on_self)
        elif part is parts[0]:
            _count_batches(porting, part, uses, given, on_self)
        else:
            _say_uses(porting, part, uses)


def _has_losses(porting: Porting, use: cst.CSTNode) -> bool:
    """Whether a name of a validation loader is read where it holds the losses."""
    assert porting.loop is not None and porting.trainer is not None
    at_loop = porting.module.scope(use) is porting.trainer.scope
    return at_loop and porting.module.span(use)[0] >= porting.module.span(porting.loop.statement)[0]


def _goes(porting: Porting, offset: int) -> bool:
    """Whether what stands at `offset` is not in the port: replaced, or inside the loop."""
    site = porting.trainer
    assert site is not None
    spans = [porting.module.span(node) for node in porting.loop.gone] if porting.loop is not None else []
    return porting.covered(offset) or any(start <= offset < end for start, end in spans)


def _takes(porting: Porting, call: cst.Call, parts: Sequence[Site]) -> bool:
    """Whether `accelerator.prepare(...)` gets a part of the loop: each may have a call of its own."""
    loop = porting.loop
    assert loop is not None
    given = {porting.module.code(argument.value) for argument in call.args}
    return bool(given & {loop.model, loop.optimizer, loop.scheduler, *(part.variable or "" for part in parts)} - {""})


def _number_of_batches(loader: Site) -> str:
    """The code of the number of a DataLoader's batches."""
    dataset, size, drops = (loader.argument(name) for name in ("dataset", "batch_size", "drop_last"))
    assert dataset is not None
    rows, per = f"len({dataset.text})", size.text if size is not None else "1"
    floor = drops is not None and drops.value.is_literal(True)
    return f"{rows} // {per}" if floor else f"math.ceil({rows} / {per})"


def _counted(porting: Porting, code: str, given: Mapping[str, Site], loader: Site) -> str:
    """New code in which the length of a DataLoader, which is gone, is calculated."""
    number = _number_of_batches(loader)
    names = [loader.variable or "", *(name for name, site in given.items() if site is loader)]
    pattern = rf"(?<![\w.])len\((?:{'|'.join(map(re.escape, names))})\)"
    if loader.variable is None or re.search(pattern, code) is None:
        return code
    if number.startswith("math."):
        porting.imports.add("import math")
    return re.sub(pattern, lambda _: number, code)


def _count_batches(
    porting: Porting,
    loader: Site,
    uses: Sequence[cst.CSTNode],
    given: Mapping[str, Site],
    on_self: Mapping[str, str],
) -> None:
    """`len(train_loader)` in what stays becomes the number of batches that it is."""
    module = porting.module
    for name in uses:
        call = module.parents[module.parents[name]]
        counted = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"
        start, end = module.span(call if counted else name)
        if _goes(porting, start):
            continue
        if counted:
            reason = "as many batches as the DataLoader had"
            if porting.loop is not None and porting.loop.kept and porting.loop.statement in module.ancestors(name):
                porting.edit(start, end, f"{porting.names.batches}.gpu_batches", loader.rule, reason)
                continue
            code = _counted(porting, module.text[start:end], given, loader)
            elsewhere = module.scope(name) is not loader.scope
            porting.edit(start, end, respelled(code, on_self) if elsewhere else code, loader.rule, reason)
            continue
        if _only_draws(porting, call):
            porting.remove_statement(call, loader.rule, "the trainer draws its batches itself")
            continue
        line, column = module.location(name)
        message = f"{shown(module.code(module.statement(name)))}: the DataLoader is gone."
        porting.find(loader.rule, "error", message, f"Use {porting.names.batches}.", line, column)


def _only_draws(porting: Porting, call: cst.CSTNode) -> bool:
    """Whether `batches = iter(loader)` is there for the loop alone, which draws its batches by `next(batches)`."""
    module, assign = porting.module, porting.module.parents.get(call)
    if not isinstance(call, cst.Call) or module.code(call.func) != "iter" or not isinstance(assign, cst.Assign):
        return False
    target = assign.targets[0].target
    found = module.scope(assign).lookup(target.value) if isinstance(target, cst.Name) else None
    if not isinstance(target, cst.Name) or found is None or len(assign.targets) != 1:
        return False
    uses = module.references(target.value, found[0])
    return all(use is target or _goes(porting, module.span(use)[0]) for use in uses)


def _let_go(porting: Porting, parts: list[Site]) -> None:
    """`del model, optimizer, loss` behind the loop: what the port hasn't is let go no more."""
    module, loop = porting.module, porting.loop
    assert loop is not None
    held = {name for part in parts if part.variable for name in module.references(part.variable, part.scope)}
    for statement in [node for node in module.parents if isinstance(node, cst.Del)]:
        if _goes(porting, module.span(statement)[0]):
            continue
        target = statement.target
        values = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else [target]
        kept = [value for value in values if value not in held and not _is_of(module, value, loop.statement)]
        if not kept:
            porting.remove_statement(statement, parts[0].rule, "Tunix's trainer has it")
        elif len(kept) < len(values):
            code = ", ".join(map(module.code, kept))
            porting.edit(*module.span(target), code, parts[0].rule, "Tunix's trainer has it")


def _is_of(module: Module, value: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Whether only the loop gives a name its values."""
    bound = bindings_of(module, value) if isinstance(value, cst.Name) else []
    return bool(bound) and all(loop in (binding.node, *module.ancestors(binding.node)) for binding in bound)


def _say_uses(porting: Porting, part: Site, uses: Sequence[cst.CSTNode]) -> None:
    """Reads of the optimizer or the schedule in what stays: a person has to look at them."""
    module = porting.module
    for name in uses:
        if _goes(porting, module.span(name)[0]):
            continue
        if _zeroes(porting, name):
            porting.remove_statement(name, part.rule, "Tunix's trainer has it")
            continue
        rate = asks_rate(porting, name)
        if rate is not None:
            names = porting.names
            code = f"float({names.schedule}({names.trainer}.train_steps))"
            porting.edit(*module.span(rate), code, part.rule, "the rate of the next step")
            continue
        line, column = module.location(name)
        message = f"{shown(module.code(module.statement(name)))}: {part.variable} is part of Tunix's trainer now."
        porting.find(part.rule, "error", message, "", line, column)


def _zeroes(porting: Porting, name: cst.CSTNode) -> bool:
    """`optimizer.zero_grad()`, a statement of its own."""
    attribute = porting.module.parents[name]
    call = porting.module.parents[attribute]
    named = isinstance(attribute, cst.Attribute) and attribute.attr.value == "zero_grad"
    return named and isinstance(call, cst.Call) and isinstance(porting.module.parents[call], cst.Expr)
