"""Generation right behind the training, by a model that nothing has switched to evaluation: its adapters drop out.

trainer.train()
model.generate(**inputs)    torch's model is in training mode still, a port's is never while it generates
pipe("a")                   a pipeline switches a model that it is given no more than generate does
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import held_by

from ._generation import models

PART_OF = "TP311"
SWITCHES = re.compile(r"\.(eval|for_inference|evaluate|predict|merge_and_unload)\(|\.train\(False\)")
PIPELINE = "transformers.pipeline"


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",))
def say_dropout_of_samples(porting: Porting) -> None:
    """One line at the first such generation, where the adapters have dropout and no evaluation came last."""
    module, trainer = porting.module, porting.trainer
    drops = [row for row in porting.fields if row.source.endswith(".lora_dropout") and row.value not in ("0", "0.0")]
    strategy = porting.value("eval.strategy")
    generates = "generate(" in module.text or "pipeline(" in module.text
    if trainer is None or not drops or "unsloth" in module.roots or not generates:
        return
    if strategy is not None and not strategy.is_literal("no", None):
        return
    behind = [
        (module.span(call)[0], call, said)
        for model in models(porting)
        for call, trained, said in _generations(porting, model.node, model.trained)
        if trained and module.span(call)[0] > trainer.start
    ]
    if not behind:
        return
    place, call, said = min(behind, key=lambda each: each[0])
    if SWITCHES.search(module.text[module.span(trainer.node)[1] : place]):
        return
    message = (
        f"{said}: the model is in training mode behind trainer.train(), so that the GPU run generates with its "
        "adapters' dropout; the port generates without."
    )
    porting.find(PART_OF, "info", message, "model.eval() in front of it is what is meant.", *module.location(call))


def _generations(porting: Porting, model: cst.BaseExpression, trained: bool) -> Iterator[tuple[cst.Call, bool, str]]:
    """The calls that generate by a model, whether each comes behind the training, and what to call it."""
    module = porting.module
    parent = module.parents[model]
    call = module.parents.get(parent)
    if not isinstance(call, cst.Call):
        return
    if isinstance(parent, cst.Attribute) and parent.attr.value == "generate":
        yield call, trained, "generate"
    elif isinstance(parent, cst.Arg) and module.qualified(call.func) == PIPELINE:
        uses = [
            call,
            *(use for place in held_by(module, call) for use in module.references(place.variable, place.scope)),
        ]
        for use in uses:
            made = module.parents.get(use)
            if isinstance(made, cst.Call) and made.func is use:
                yield made, trained or _is_late(porting, made), "pipeline"


def _is_late(porting: Porting, call: cst.Call) -> bool:
    """Whether a pipeline of the model as it was made is called where the trainer stands, behind it."""
    module, trainer = porting.module, porting.trainer
    return trainer is not None and module.scope(call) is trainer.scope and module.span(call)[0] > trainer.start
