"""What a training loop by hand trains that no port can: a model that Tunix hasn't, one of another file, or its own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.scopes import walk
from ..draft.findings import NO_FAMILY, NO_TASK
from ..script.fill_from_tables import bindings_of
from ..script.following.other_models import made_by, of_another_family, others_trained
from ..script.following.where_models_come_from import is_from_scratch
from ..script.subclasses import class_of
from ..script.training import Training
from .statements.advice import BESIDE, FRESH
from .statements.facts import Loop
from .statements.not_standard import NotStandard

USUAL = "model"  # what a loop calls its model whose forward pass isn't read


def say_others(porting: Training, model: cst.BaseExpression | None = None) -> None:
    """An error for each model that is trained and that Tunix hasn't, under NO_FAMILY or NO_TASK; `model` as for
    `others_trained`."""
    found = others_trained(porting, model)
    once = {other.name: (call, other) for call, other in reversed(found)}  # it may be loaded again behind the loop
    for call, other in once.values():
        said = other.finding(porting.module, call)
        key = NO_TASK if other.is_of_another_task else NO_FAMILY
        porting.find(said.rule, "error", said.message, said.fix, said.line, said.column, todo=False, key=key)


def unloaded(porting: Training, loop: Loop) -> Iterator[NotStandard]:
    """Why the loop's model is none that the port can load: the file's own class, made from scratch, or not seen."""
    module, model = porting.module, model_of(loop)
    values = [binding.value for binding in bindings_of(module, model)] if model is not None else []
    for value in [*values, *made_by(porting, model)]:
        call = value.func if isinstance(value, cst.Call) else None
        inner = call.value if isinstance(call, cst.Attribute) else call  # Model(...), Model.from_pretrained(...)
        if inner is not None and class_of(module, inner) is not None:
            reason = f"its model is `{module.code(inner)}`, a class of this file, and Tunix trains models of its own"
            yield NotStandard(value or loop.statement, reason, of_another_family())
            return
    if any(site.role == "model" for site in porting.sites):
        return
    fresh = next((call for call in module.calls if is_from_scratch(porting, call)), None)
    if fresh is not None:
        reason = f"its model starts from scratch, by `{module.code(fresh.func)}`"
        yield NotStandard(fresh, reason, FRESH)
    else:
        yield NotStandard(loop.statement, "its model is not loaded by a from_pretrained call in this file", BESIDE)


def model_of(loop: Loop) -> cst.BaseExpression | None:
    """What the loop calls its model, as an expression in it."""
    if loop.call is not None:
        return loop.trained or loop.call.func
    for node in walk(loop.statement):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == USUAL:
            return node.func
    return None
