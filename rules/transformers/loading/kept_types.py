"""The type of models that torch loads in the port, too, where the source's transformers has another default.

    classifier = AutoModelForSequenceClassification.from_pretrained("me/reward")

Without `dtype` transformers loads float32 before version 5 (a pipeline before 4.53), then the checkpoint's type.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, is_before, step
from porter.packs.script import dict_items, shortened

from .._default_types import KEEPS_TYPE, PIPELINE_KEEPS_TYPE
from ..generation._reload_arguments import is_off

PART_OF = "TP302"

LOADS = re.compile(r"transformers\.(?:\w+\.)*(?:AutoModel\w*|[A-Z]\w*(?:Model|For[A-Z]\w+))\.from_pretrained")
LOADS_ADAPTED = re.compile(r"peft\.(?:\w+\.)*AutoPeftModel\w*\.from_pretrained")
PIPELINE = re.compile(r"transformers\.(?:pipelines\.)?pipeline")
TYPES = ("dtype", "torch_dtype")
QUANTISES = frozenset({"quantization_config", "load_in_4bit", "load_in_8bit"})
CASTS = frozenset({"half", "bfloat16", "float"})
FLOAT32, REASON = '"float32"', "the type that the source's transformers loads it in"


@step(Phase.NAME, reads=("keywords of the Hub",))
def keep_default_types(porting: Porting) -> None:
    """Gives loads that the port keeps `dtype="float32"`, where they name no type and the source's release has that."""
    module = porting.module
    if porting.foreign_model:
        return
    for call in module.calls:
        name = module.qualified(call.func) or ""
        is_pipeline = PIPELINE.fullmatch(name) is not None
        if not (is_pipeline or LOADS.fullmatch(name) or LOADS_ADAPTED.fullmatch(name)) or not call.args:
            continue
        if porting.covered(module.span(call)[0]) or _is_cast(porting, call) or (is_pipeline and not _loads(call)):
            continue
        if is_before(porting, "transformers", PIPELINE_KEEPS_TYPE if is_pipeline else KEEPS_TYPE):
            _settle(porting, call)


def _settle(porting: Porting, call: cst.Call) -> None:
    """Writes the type; an info where what unpacked keywords hold isn't known."""
    module = porting.module
    given = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    spread = [argument.value for argument in call.args if argument.star == "**"]
    spread += [given["model_kwargs"]] if "model_kwargs" in given else []
    for value in spread:
        items = dict_items(module, value)
        if items is None:
            code = shortened(module.code(call.func))
            message = f"{code}: where {shortened(module.code(value))} names no dtype, the source's transformers loads"
            message += " float32, the port's the checkpoint's type."
            fix = 'dtype="float32" loads as the source does.'
            porting.find(PART_OF, "info", message, fix, *module.location(call))
            return
        given |= {key: each for key, each in items if isinstance(key, str)}
    if any(not is_off(porting, given[each]) for each in QUANTISES & given.keys()):
        return
    named = [given[each] for each in TYPES if each in given]
    if named and all(module.code(each) == "None" for each in named) and not spread:
        for each in named:
            porting.edit(*module.span(each), FLOAT32, PART_OF, REASON)
    elif not named:
        end = module.span(call.args[-1])[1]
        porting.edit(end, end, f", dtype={FLOAT32}", PART_OF, REASON)


def _loads(call: cst.Call) -> bool:
    """Whether a pipeline is given a model's name, as far as one can see, or none: it loads a default then."""
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "model"]
    given += [a.value for place, a in enumerate(call.args) if a.keyword is None and not a.star and place == 1]
    return not given or isinstance(given[0], cst.SimpleString | cst.FormattedString)


def _is_cast(porting: Porting, call: cst.Call) -> bool:
    """Whether the model is cast on the spot: `.from_pretrained(...).half()`."""
    method = porting.module.parents[call]
    return isinstance(method, cst.Attribute) and method.attr.value in CASTS
