"""Generation right behind the training, by a model that nothing has switched to evaluation.

trainer.train()
model.generate(**inputs)    torch's model is in training mode still, a port's is never while it generates
pipe("a")                   a pipeline switches a model that it is given no more than generate does

Its adapters drop out. With gradient checkpointing on, a layer in training mode drops its cache besides (transformers
4.53 and later; before, generate noticed, and fed the whole text again), while generate feeds the last token alone:
each token depends on the one before it, and on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import calls_of, function_around, held_by, plain_version, version_key

from ._dictionaries_as_ids import ENDS
from ._generation import MAX_CALLS, models

PART_OF = "TP311"
SWITCHES = re.compile(r"\.(eval|for_inference|evaluate|predict|merge_and_unload)\(|\.train\(False\)")
PIPELINE = "transformers.pipeline"
DROPS_CACHE = "4.53"  # the first transformers whose layers do
CHECKPOINTS = ("memory.gradient_checkpointing", "memory.kbit_gradient_checkpointing")
WITHOUT_CACHE = re.compile(r"\bgeneration_config\.use_cache *= *False|\.gradient_checkpointing_disable\(")


@step(Phase.ANSWER, of="trainer", reads=("reloaded models", "claimed uses"))
def say_dropout_of_samples(porting: Porting) -> None:
    """One line at the first such generation, where the adapters have dropout or layers drop their cache, and no
    evaluation came last."""
    module, trainer = porting.module, porting.trainer
    drops = [row for row in porting.fields if row.source.endswith(".lora_dropout") and row.value not in ("0", "0.0")]
    strategy = porting.value("eval.strategy")
    generates = "generate(" in module.text or "pipeline(" in module.text
    forgets = _drops_cache(porting)
    if trainer is None or not (drops or forgets) or "unsloth" in module.roots or not generates:
        return
    if strategy is not None and not strategy.is_literal("no", None):
        return
    behind = [
        (place, module.span(call)[0], call, said)
        for model in models(porting)
        for call, trained, said in _generations(porting, model.node, model.trained)
        if trained and call not in porting.answers.get(ENDS, ()) and (place := _runs_at(porting, call)) is not None
    ]
    if not behind:
        return
    place, start, call, said = min(behind, key=lambda each: each[:2])
    function = function_around(module, call)
    own = module.text[module.span(function)[0] : start] if function is not None and start != place else ""
    if SWITCHES.search(module.text[module.span(trainer.node)[1] : place]) or SWITCHES.search(own):
        return
    begins = f"{said}: the model is in training mode behind trainer.train(), so that the GPU run generates"
    fix = "model.eval() in front of it is what is meant."
    if forgets and not re.search(r"\buse_cache *= *False", module.code(call)):
        more = " and with its adapters' dropout" if drops else ""
        message = (
            f"{begins} each token from the one before it alone{more}: with gradient checkpointing on, transformers "
            f"{forgets} drops the cache. The port generates from the whole text: expect another."
        )
        porting.find(PART_OF, "info", message, fix, *module.location(call))
    elif drops:
        message = f"{begins} with its adapters' dropout; the port generates without."
        porting.find(PART_OF, "info", message, fix, *module.location(call))


def _runs_at(porting: Porting, node: cst.CSTNode, depth: int = 0) -> int | None:
    """Where the trainer's function first comes to a place behind the trainer: there, or at a call of the function
    around it; None where it doesn't."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    function, start = function_around(module, node), module.span(node)[0]
    if function is function_around(module, trainer.node):
        return start if start > trainer.start else None
    if function is None or depth == MAX_CALLS:
        return None
    found = [_runs_at(porting, call, depth + 1) for call in calls_of(module, function)]
    return min((place for place in found if place is not None), default=None)


def _drops_cache(porting: Porting) -> str:
    """The release of transformers, where its layers drop their cache in training mode; else nothing."""
    release = plain_version(porting.versions.get("transformers", ""))
    checkpoints = any(porting.known(place) is True for place in CHECKPOINTS)
    drops = checkpoints and version_key(release) >= version_key(DROPS_CACHE)
    return release if drops and not WITHOUT_CACHE.search(porting.module.text) else ""


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
