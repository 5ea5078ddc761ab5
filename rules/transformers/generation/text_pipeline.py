"""pipeline("text-generation", model=model) → `rt.TextGenerationPipeline(model, tokenizer)`.

What it does: keeps the pipeline's settings and its calls; `device` and its like go.
Why: transformers' pipeline runs torch models.
Example: `pipe = pipeline("text-generation", model=model, tokenizer=tokenizer, device=0)`
Use instead: `pipe = rt.TextGenerationPipeline(model, tokenizer)`
Safety: the records' text and the defaults are the source's release's: 256 tokens, sampled at a temperature of 0.7,
from 4.52 on, before that what the checkpoint's generation_config.json says, or greedy.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Field, Phase, Porting, step
from porter.packs.runtime import IDLE_SETTINGS, PIPELINE_SETTINGS
from porter.packs.script import held_by
from porter.packs.training import in_reach
from porter.packs.writing import mark_of, read_site

from .._default_types import PIPELINE_KEEPS_TYPE
from ._generation import (
    INPUTS,
    TASK,
    Model,
    is_text,
    made_by_port,
    release_of_generation,
    say_torchs,
    settle_keywords,
    trained,
)
from ._reload_arguments import QUANTISES, float32_before, is_tunixs, quantization_of
from ._reloaded_by_unsloth import reloaded_tokenizer

ID = "TP313"
AS_TODAY = "5.9.0"  # the first transformers whose pipeline samples and decodes as the newest does
# Keywords of `pipeline` that say where and how torch's model lies.
PLACES = {
    "device": "the model lies on the mesh",
    "device_map": "the model lies on the mesh",
    "dtype": "the model has its type",
    "torch_dtype": "the model has its type",
    "framework": "the model is Tunix's",
    "model_kwargs": "the model is loaded already",
    "trust_remote_code": "no code is loaded",
    "use_fast": "the tokenizer is loaded already",
    "token": "nothing is fetched",
    "revision": "nothing is fetched",
    "num_workers": "the prompts are tokenised in the script's process",
}


@step(Phase.ANSWER, of="trainer", reads=("reloaded models",), fills=("claimed uses",))
def apply_pipelines(porting: Porting) -> None:
    """Text-generation pipelines over the model that this trainer trains, over those that the port loads again, and over
    what a pipeline itself loads by a name."""
    module = porting.module
    if "pipeline(" not in module.text:
        return
    for place in trained(porting):
        argument = module.parents[place.node]
        call = module.parents.get(argument)
        if porting.covered(module.span(place.node)[0]) or not isinstance(call, cst.Call):
            continue
        if isinstance(argument, cst.Arg) and module.qualified(call.func) == "transformers.pipeline":
            _port_pipeline(porting, call, place)
    for call in module.calls:
        if module.qualified(call.func) != "transformers.pipeline" or TASK not in module.code(call):
            continue
        named = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "model"]
        if porting.covered(module.span(call)[0]) or not named:
            continue
        model, made = named[0], made_by_port(porting, named[0])
        if made:
            _port_pipeline(porting, call, Model(model, module.code(model), trained=True))
        elif made is False and _can_load(porting, call, model):
            words = [module.code(model), porting.names.mesh, *_loading(porting, call)]
            new = f"{porting.rt('load_trained')}({', '.join(words)})"
            _port_pipeline(porting, call, Model(model, new, trained=True))
        elif made is False:
            say_torchs(porting, call)


def _can_load(porting: Porting, call: cst.Call, model: cst.BaseExpression) -> bool:
    """Whether a pipeline is given a model's name where the mesh is known."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    behind = porting.model is not None and porting.model.start < module.span(call)[0]
    return (
        behind and is_text(porting, model) and is_tunixs(porting, model) and in_reach(trainer.scope, module.scope(call))
    )


def _loading(porting: Porting, call: cst.Call) -> list[str]:
    """`quantization=` and `dtype=` of what a pipeline loads, be it of its `model_kwargs={"load_in_4bit": True}`."""
    module = porting.module
    asked = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    held = asked.get("model_kwargs")
    for item in held.elements if isinstance(held, cst.Dict) else ():
        if isinstance(item, cst.DictElement):
            asked[module.code(item.key).strip("\"'")] = item.value
    found = [quantization_of(porting, name, asked[name]) for name in QUANTISES if name in asked]
    quantised = [f"quantization={one}" for one in found if one][:1]
    named = [module.code(asked[name]) for name in ("dtype", "torch_dtype") if name in asked][:1]
    if named and named[0].strip("\"'") not in ("auto", "None"):
        return [f"dtype={named[0]}", *quantised]
    is_auto = bool(named) and named[0] != "None"
    return quantised or ([] if is_auto else float32_before(porting, PIPELINE_KEEPS_TYPE))


def _port_pipeline(porting: Porting, call: cst.Call, model: Model) -> None:
    """`pipeline("text-generation", model=model, ...)` → `rt.TextGenerationPipeline(model, ...)`."""
    module = porting.module
    site = read_site(module, call, "model", ID, "transformers.pipeline", ("task", "model", "config", "tokenizer"))
    task, tokenizer = site.argument("task"), site.argument("tokenizer")
    if task is not None and not task.value.is_literal(TASK):
        message = f"pipeline({task.text}): the port has {TASK} pipelines only."
        porting.find(ID, "error", message, "Run it in a script of its own.", site.line, site.column)
        return
    name = tokenizer.text if tokenizer is not None else porting.names.tokenizer
    folder = model.node if tokenizer is None else tokenizer.node
    if folder is not None and is_text(porting, folder):
        name = reloaded_tokenizer(porting, folder)
    if not name:
        message = "pipeline(...): the tokenizer of this pipeline isn't named."
        porting.find(ID, "error", message, "Give it tokenizer=, and port again.", site.line, site.column)
        return
    settle_keywords(porting, site, "pipeline", (*INPUTS, "task", "model", "tokenizer", *PLACES, *PIPELINE_SETTINGS))
    kept = []
    for argument in site.arguments:
        if argument.name in PLACES:
            reason = PLACES[argument.name]
            place = argument.line, argument.column
            porting.fate(Field(f"pipeline.{argument.name}", argument.text, "dropped", "", reason, ID, *place))
        elif argument.name not in ("task", "model", "tokenizer", *IDLE_SETTINGS):
            kept.append(f"{argument.name}={argument.text}")
    kept += release_of_generation(porting, AS_TODAY)
    if site.unknown_keywords:
        kept.append(site.unknown_keywords)
    marks = mark_of(porting, site.arguments)
    new = f"{marks}{porting.rt('TextGenerationPipeline')}({', '.join([model.text, name, *kept])})"
    porting.edit(*module.span(call), new, ID, "transformers' pipeline over Tunix's model")
    for holder in held_by(module, call):
        for use in module.references(holder.variable, holder.scope):
            made = module.parents[use]
            if isinstance(made, cst.Call) and made.func is use:
                called = read_site(module, made, "model", ID, "transformers.pipeline", ("text_inputs",))
                settle_keywords(porting, called, "pipeline", (*INPUTS, "text_inputs", "max_length", *PIPELINE_SETTINGS))
