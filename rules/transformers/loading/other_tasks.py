"""Models of another task (classifiers, encoder-decoders, speech, vision and language), and of no family of Tunix."""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, step
from porter.packs.training import (
    NO_FAMILY,
    NO_TASK,
    OTHER_MODELS,
    WHERE_FROM,
    OtherModel,
    Training,
    known_families,
    made_by,
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
    module, known = porting.module, tables_of(porting)
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
    module.memory[OTHER_MODELS] = found


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
    if others:  # where the model comes from is seen, and says enough
        porting.withdraw(WHERE_FROM)
    for call, other in others.items():
        said = other.finding(porting.module, call)
        key = NO_TASK if other.is_of_another_task else NO_FAMILY
        porting.find(said.rule, said.severity, said.message, said.fix, said.line, said.column, key=key)
