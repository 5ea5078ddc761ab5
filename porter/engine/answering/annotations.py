"""Annotations that name a class of the GPU side become those of what stands there now.

`def run(trainer: SFTTrainer)` gets Tunix's trainer, and so says `PeftTrainer`; a model is an `nnx.Module`.
"""

from __future__ import annotations

import libcst as cst

from ..script.fill_from_tables import table_of
from ..script.porting import Porting
from ..script.sites import facts_of
from ..script.subclasses import base_of, class_of
from ..steps.step import Phase, step

RULE = "TP001"
OWN = {
    **dict.fromkeys(("dpo", "orpo", "cpo", "kto"), "PreferenceTrainer"),
    "gkd": "DistillationTrainer",
}  # the runtime's trainers, by the kind of the source's; the others are Tunix's


@step(Phase.ANSWER, fills=("claimed names",))
def rename_annotations(porting: Porting) -> None:
    """Replace the class in every annotation of a ported trainer or of a torch model."""
    module = porting.module
    trainers = {
        view.trainer.qualified: table_of(view, view.trainer).kind
        for view in porting.trainers
        if view.trainer is not None and view.loop is None
    }
    models = facts_of(module).model_classes
    for node in list(module.parents):
        if not isinstance(node, cst.Name | cst.Attribute) or not _is_annotation(porting, node):
            continue
        name = module.qualified(node) or base_of(module, node)
        if name in models and not _is_still_loaded(porting, name):
            porting.imports.add("from flax import nnx")
            porting.edit(*module.span(node), "nnx.Module", RULE, "what the name holds now")
        elif name is not None and (kind := trainers.get(name)):
            porting.edit(*module.span(node), _class(porting, kind), RULE, "what the name holds now")


def _is_still_loaded(porting: Porting, name: str) -> bool:
    """Whether the port may still load a model of this class, as the source does."""
    module = porting.module
    loads = [call for call in module.calls if (module.qualified(call.func) or "").startswith(f"{name}.")]
    return any(not porting.covered(module.span(call)[0]) for call in loads)


def _class(porting: Porting, kind: str) -> str:
    """The class of the trainer that stands for one of this kind, and its import."""
    if kind in OWN:
        return porting.rt(OWN[kind])
    porting.imports.add("from tunix.sft.peft_trainer import PeftTrainer")
    return "PeftTrainer"


def _is_annotation(porting: Porting, node: cst.CSTNode) -> bool:
    parent = porting.module.parents[node]
    if isinstance(parent, cst.Attribute) and parent.value is node:
        return False
    for ancestor in porting.module.ancestors(node):
        if isinstance(ancestor, cst.Annotation):
            return True
        if isinstance(ancestor, cst.BaseSmallStatement | cst.BaseSuite | cst.Call):
            return False
    return False


@step(Phase.SETTLE, fills=("classes",))
def drop_subclasses(porting: Porting) -> None:
    """A class of the file that added nothing to the trainer goes with its last use."""
    module = porting.module
    for view in porting.trainers:
        made = view.trainer.node if view.trainer is not None else None
        definition = class_of(module, made.func) if isinstance(made, cst.Call) else None
        if definition is None:
            continue
        uses = [module.span(use)[0] for use in module.loads(definition.name.value)]
        spans = [(edit.start, edit.end) for edit in porting.edits]
        if all(any(start <= use < end for start, end in spans) for use in uses):
            porting.remove_statement(definition, RULE, f"{definition.name.value} added nothing to the trainer")
