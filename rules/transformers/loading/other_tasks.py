"""Models of another task (classifiers, encoder-decoders, speech, vision and language), and of no family of Tunix."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.script import Module, returned
from porter.packs.training import (
    NO_FAMILY,
    NO_TASK,
    OTHER_MODELS,
    WHERE_FROM,
    OtherModel,
    Training,
    function_elsewhere,
    known_families,
    made_by,
    made_in,
    of_another_family,
    other_models,
    tables_of,
)

PART_OF = "transformers"

OTHER_TASK = re.compile(
    r"transformers\.(?:models\.[\w.]+\.)?(\w+For(?:Seq2SeqLM|SequenceClassification|TokenClassification|MaskedLM|"
    r"QuestionAnswering|MultipleChoice|NextSentencePrediction|ConditionalGeneration|SpeechSeq2Seq|CTC|"
    r"AudioClassification|ImageClassification|Vision2Seq)|(?:Marian|VisionEncoderDecoder|EncoderDecoder|"
    r"SpeechEncoderDecoder)(?:MT)?Model)\.from_(?:pretrained|config|encoder_decoder_pretrained)"
    r"|unsloth\.(FastVisionModel)\.from_pretrained"
)
# A decoder of one architecture, by its own class; those of Tunix's families have a table.
ONE_ARCHITECTURE = re.compile(
    r"transformers\.(?:models\.[\w.]+\.)?((?!Auto)\w+(?:ForCausalLM|LMHeadModel|DoubleHeadsModel))\.from_pretrained"
)
# What to do instead, by what a class is for; the first that it holds.
HEARS = re.compile("Whisper|Speech|CTC|Audio|Wav2Vec|Voxtral")
ANSWERS = re.compile(
    "Seq2SeqLM|T5|Bart|BART|Pegasus|Marian|M2M|LED|ProphetNet|Blenderbot|SwitchTransformers|FSMT|NllbMoe|(?<!Vision)Encoder"
)
LABELS = re.compile("Classification(?<!ImageClassification)|MaskedLM|QuestionAnswering|MultipleChoice|NextSentence")
ON_GPU = "Keep this training on the GPU"
INSTEAD = (
    (HEARS, f"{ON_GPU}: Tunix has no model that hears."),
    (LABELS, f"{ON_GPU}; or train a language model to write the answer as text (AutoModelForCausalLM with TRL's "
             "SFTTrainer), which is ported."),
    (ANSWERS, f"{ON_GPU}; or train a decoder-only model on each input with its answer behind it (AutoModelForCausalLM "
              "with TRL's SFTTrainer), which is ported."),
)  # fmt: skip
SEES = f"{ON_GPU}; trained on texts alone, a language model (AutoModelForCausalLM) is ported."


@step(Phase.FIND, fills=(OTHER_MODELS,))
def note_other_models(porting: Training) -> None:
    """Note in the module which calls surely load a model for another task, or by the class of an architecture that
    Tunix hasn't."""
    porting.module.memory[OTHER_MODELS] = _others(porting, porting.module)


def _others(porting: Training, module: Module) -> dict[cst.Call, OtherModel]:
    known = tables_of(porting)
    architectures = {name for family in known_families(porting) for name in family.architectures}
    found: dict[cst.Call, OtherModel] = {}
    for call in module.calls if ".from_" in module.text else ():
        name = module.qualified(call.func) or ""
        if name in known:
            continue
        task, alone = OTHER_TASK.fullmatch(name), ONE_ARCHITECTURE.fullmatch(name)
        if task is not None:
            what = task[1] or task[2]
            found[call] = OtherModel(what, "kind of model", _instead(what))
        elif alone is not None and alone[1] not in architectures:
            found[call] = OtherModel(alone[1], "model family", of_another_family())
    return found


def _instead(name: str) -> str:
    return next((said for pattern, said in INSTEAD if pattern.search(name)), SEES)


@step(Phase.READ, of="trainer", reads=("model", "inject", OTHER_MODELS), fills=("obstacles",))
def refuse_other_models(porting: Training) -> None:
    """An error, which makes the port unsupported, where the trainer's model is surely one of those."""
    trainer, inject = porting.trainer, porting.inject
    assert trainer is not None
    arguments = [site.argument("model") for site in (trainer, inject) if site is not None]
    made = [site.node for site in porting.of_role("model")]
    known = other_models(porting.module)
    others: dict[cst.Call, OtherModel] = {}
    for node in [argument.node for argument in arguments if argument is not None]:
        for call in made_by(porting, node):
            if call in made:
                return  # by condition, or behind the training
            if call in known:
                others[call] = known[call]
            elif (other := _given_back(porting, call)) is not None:
                others[call] = other
    if others:  # where the model comes from is seen, and says enough
        porting.withdraw(WHERE_FROM)
    for call, other in others.items():
        said = other.finding(porting.module, call)
        key = NO_TASK if other.is_of_another_task else NO_FAMILY
        porting.find(said.rule, said.severity, said.message, said.fix, said.line, said.column, key=key)


def _given_back(porting: Training, call: cst.Call) -> OtherModel | None:
    """What a function of several returns, or of another file of the project, gives back, where that is such a model by
    each of them."""
    module, function, file = porting.module, porting.module.callees.get(call), ""
    others = other_models(module)
    if function is None:
        if (found := function_elsewhere(module, call)) is None:
            return None
        module, function, file = found
        others = _others(porting, module)
    loads = [_among(module, value, others) for value in returned(module, function)]
    first = loads[0] if loads and None not in loads else None
    if first is None:
        return None
    place = f" ({file}:{module.location(first)[0]})" if file else ""
    return replace(others[first], name=f"{others[first].name}{place}")


def _among(module: Module, value: cst.BaseExpression, loads: Collection[cst.Call]) -> cst.Call | None:
    """The one of some calls that a value, or a part of a tuple, comes from."""
    parts = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    return next((call for part in parts for call in made_in(module, part) if call in loads), None)
