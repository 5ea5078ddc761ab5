"""Generation right behind the training, by a model that nothing has switched to evaluation: its adapters drop out.

trainer.train()
model.generate(**inputs)    torch's model is in training mode still, a port's is never while it generates
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step

from ._generation import models

PART_OF = "TP311"
SWITCHES = re.compile(r"\.(eval|for_inference|evaluate|predict|merge_and_unload)\(|\.train\(False\)")


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",))
def say_dropout_of_samples(porting: Porting) -> None:
    """One line at the first such generation, where the adapters have dropout and no evaluation came last."""
    module, trainer = porting.module, porting.trainer
    drops = [row for row in porting.fields if row.source.endswith(".lora_dropout") and row.value not in ("0", "0.0")]
    strategy = porting.value("eval.strategy")
    if trainer is None or not drops or "unsloth" in module.roots or "generate(" not in module.text:
        return
    if strategy is not None and not strategy.is_literal("no", None):
        return
    for model in models(porting):
        parent = module.parents[model.node]
        call = module.parents.get(parent)
        place = module.span(model.node)[0]
        generates = isinstance(parent, cst.Attribute) and parent.attr.value == "generate"
        if not model.trained or not generates or not isinstance(call, cst.Call) or place < trainer.start:
            continue
        between = module.text[module.span(trainer.node)[1] : place]
        if SWITCHES.search(between):
            return
        message = (
            "generate: the model is in training mode behind trainer.train(), so that the GPU run samples with its "
            "adapters' dropout; the port samples without."
        )
        porting.find(PART_OF, "info", message, "model.eval() in front of it is what is meant.", *module.location(call))
        return
