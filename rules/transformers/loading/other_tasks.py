"""Models of another task (classifiers, encoder-decoders, speech, vision and language), and of no family of Tunix."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import binding_origins, origins
from porter.packs.training import NO_FAMILY, WHERE_FROM, Training, bindings_of, known_families, tables_of

PART_OF = "transformers"

OTHER_TASK = re.compile(
    r"transformers\.(\w+For(?:Seq2SeqLM|SequenceClassification|TokenClassification|MaskedLM|QuestionAnswering|"
    r"MultipleChoice|ConditionalGeneration|SpeechSeq2Seq|CTC|AudioClassification|ImageClassification|Vision2Seq))"
    r"\.from_pretrained|unsloth\.(FastVisionModel)\.from_pretrained"
)
# A decoder of one architecture, by its own class; those of Tunix's families have a table.
ONE_ARCHITECTURE = re.compile(r"transformers\.((?!Auto)\w+(?:ForCausalLM|LMHeadModel))\.from_pretrained")


@step(Phase.READ, of="trainer", reads=("model", "inject"), fills=("obstacles",))
def refuse_other_models(porting: Training) -> None:
    """An error, which makes the port unsupported, where the trainer's model is surely loaded for another task, or by
    the class of an architecture that Tunix hasn't."""
    trainer, inject = porting.trainer, porting.inject
    assert trainer is not None
    arguments = [site.argument("model") for site in (trainer, inject) if site is not None]
    known = tables_of(porting)
    made = [site.node for site in porting.of_role("model")]
    families = known_families(porting)
    architectures = {name for family in families for name in family.architectures}
    others: dict[cst.Call, tuple[str, str]] = {}
    for node in [argument.node for argument in arguments if argument is not None]:
        bound = bindings_of(porting.module, node)
        values = [value for binding in bound for value in (binding.value, *binding_origins(porting.module, binding))]
        for call in [*values, *origins(porting.module, node)]:
            if not isinstance(call, cst.Call):
                continue
            if call in made:
                return  # by condition, or behind the training
            name = porting.module.qualified(call.func)
            found, alone = OTHER_TASK.fullmatch(name or ""), ONE_ARCHITECTURE.fullmatch(name or "")
            if name in known:
                continue
            if found is not None:
                others[call] = found[1] or found[2], "kind of model"
            elif alone is not None and alone[1] not in architectures:
                others[call] = alone[1], "model family"
    if others:  # where the model comes from is seen, and says enough
        porting.withdraw(WHERE_FROM)
    for call, (name, what) in others.items():
        message = f"{name}: Tunix has no implementation of this {what}."
        fix = "Tunix trains decoder-only language models (AutoModelForCausalLM)."
        if what == "model family":
            fix = f"Families that port: {', '.join(sorted({family.name for family in families}))}."
        porting.find("TP302", "error", message, fix, *porting.module.location(call), key=NO_FAMILY)
