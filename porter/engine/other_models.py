"""Models of another task under transformers' Trainer, which trains any: classifiers, encoder-decoders, speech."""

from __future__ import annotations

import re

import libcst as cst

from .flow import without_placement
from .porting import Porting
from .reading import bindings_of, tables_by_class

OTHER_TASK = re.compile(
    r"transformers\.(\w+For(?:Seq2SeqLM|SequenceClassification|TokenClassification|MaskedLM|QuestionAnswering|"
    r"MultipleChoice|ConditionalGeneration|SpeechSeq2Seq|CTC|AudioClassification|ImageClassification|Vision2Seq))"
    r"\.from_pretrained"
)


def refuse_other_models(porting: Porting) -> None:
    """An error, which makes the port unsupported, where the trainer's model is loaded for another task."""
    trainer = porting.trainer
    assert trainer is not None
    argument = trainer.argument("model")
    known = tables_by_class(porting.packs)
    for binding in bindings_of(porting.module, argument.node) if argument is not None else ():
        call = without_placement(binding.value)
        name = porting.module.qualified(call.func) if isinstance(call, cst.Call) else None
        found = OTHER_TASK.fullmatch(name or "")
        if found is not None and name not in known and call is not None:
            message = f"{found[1]}: Tunix has no implementation of this kind of model."
            fix = "Tunix trains decoder-only language models (AutoModelForCausalLM)."
            porting.find("TP302", "error", message, fix, *porting.module.location(call))
