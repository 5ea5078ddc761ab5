"""The places where a trained model stands, and what generates with it: what rt.generate and its pipeline share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Argument, Field, Porting, Site
from porter.packs.runtime import GENERATION_DEFAULTS, IDLE_SETTINGS, REFUSED_SETTINGS, asks_nothing
from porter.packs.script import (
    Unknown,
    Use,
    argument_of,
    binding_origins,
    calls_of,
    evaluate,
    function_around,
    plain_version,
    role_uses,
    shortened,
    shown,
    unwraps,
    uses_behind,
    version_key,
)
from porter.packs.training import is_another, is_in_reach
from porter.packs.writing import stays

from ._settings_in_dicts import Setting, settings_in

RULE = "TP311"
RELOADED = "models that the port loads again"  # of a trainer: their names, where they stand

# What a call hands on as it is, beside the settings.
INPUTS = ("inputs", "input_ids", "attention_mask", "streamer", "generation_config")
TASK = "text-generation"
MAX_CALLS = 8  # functions that call each other
MAKES = ("load_model", "apply_peft", "apply_lora", "apply_adapter")  # functions of the runtime
LEAVE_OUT = "Leave it out, or generate in a script of its own from what this one saves."
LOADERS = ("transformers.AutoModel", "peft.PeftModel", "peft.AutoPeftModel")


@dataclass(frozen=True)
class Model:
    """A name of the trained model where it is used, what the port writes for it, and whether training is over."""

    node: cst.BaseExpression
    text: str
    trained: bool


def trained(porting: Porting) -> Iterator[Model]:
    """Every place where a model stands that the port loads again, or trains."""
    assert porting.trainer is not None
    for name in porting.answers.get((RELOADED, porting.trainer.node), ()):
        yield Model(name, name.value, trained=False)
    yield from models(porting)


def say_torchs(porting: Porting, call: cst.Call) -> None:
    """A warning where a model that torch loads in the port, too, generates."""
    message = f"{shortened(porting.module.code(call.func))}(...): this model is torch's, and generates on the host."
    fix = "For a TPU, load it with rt.load_model (and rt.apply_adapter), and use rt.generate."
    porting.find(RULE, "warning", message, fix, *porting.module.location(call))


def models(porting: Porting) -> Iterator[Model]:
    """Every place where the trained model stands, `trainer.model` and what merge_and_unload gives included."""
    module = porting.module
    for use in list(role_uses(porting)):
        node: cst.BaseExpression = use.name
        if use.role == "trainer":
            attribute = module.parents[node]
            if not isinstance(attribute, cst.Attribute) or attribute.attr.value != "model":
                continue
            node = attribute
        elif (isinstance(node, cst.Call) and not unwraps(node)) or _may_be_another(porting, node):
            continue
        model = Model(node, *_written(porting, use, node))
        yield model
        merged = module.parents[node]
        call = module.parents.get(merged)
        if isinstance(merged, cst.Attribute) and merged.attr.value == "merge_and_unload" and isinstance(call, cst.Call):
            for name in uses_behind(module, call):
                if not isinstance(name, cst.Call):
                    yield Model(name, module.code(name), True)


def _may_be_another(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether a parameter is also given a model that was loaded anew behind the training, be it by a function that is
    given it."""
    found = porting.module.meaning(node)
    for binding in found[1] if found is not None else ():
        if binding.kind != "parameter" or not isinstance(binding.node, cst.Param):
            continue
        function = next((n for n in porting.module.ancestors(binding.node) if isinstance(n, cst.FunctionDef)), None)
        for call in calls_of(porting.module, function) if function is not None else ():
            given = argument_of(porting.module, call, binding.node.name.value)
            if not isinstance(given, cst.Name):
                continue
            if is_another(porting, given) or (depth < MAX_CALLS and _may_be_another(porting, given, depth + 1)):
                return True
    return False


def _written(porting: Porting, use: Use, node: cst.BaseExpression) -> tuple[str, bool]:
    """What the port calls the model where it is used, and whether training is over there."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    function = function_around(module, node)
    here = function is function_around(module, trainer.node)
    before = module.span(node)[0] < trainer.start if here else runs(porting, function) == {"before"}
    if isinstance(node, cst.Call):  # accelerator.unwrap_model(model)
        node = node.args[0].value
    if use.role == "trainer" and is_in_reach(porting, use.name):
        return porting.names.model, True
    if before or use.role == "trainer" or not is_in_reach(porting, use.name):
        return module.code(node), not before
    return porting.names.model, True


def runs(porting: Porting, function: cst.FunctionDef | None, depth: int = 0) -> set[str]:
    """When the calls of a function run that the trainer's function makes: "before" the trainer, "behind" it."""
    module, trainer = porting.module, porting.trainer
    assert trainer is not None
    found: set[str] = set()
    for call in calls_of(module, function) if function is not None and depth < MAX_CALLS else ():
        outer = function_around(module, call)
        if outer is function_around(module, trainer.node):
            found.add("before" if module.span(call)[0] < trainer.start and not module.loops(call) else "behind")
        elif outer is not function:
            found |= runs(porting, outer, depth + 1)
    return found


def made_by_port(porting: Porting, model: cst.BaseExpression) -> bool | None:
    """Whether a model is made by new code, or (False) loaded by transformers or PEFT, or named for them to load."""
    module = porting.module
    if is_text(porting, model):
        return False
    found = module.meaning(model) if isinstance(model, cst.Name) else None
    bindings = [b for b in found[1] if module.span(b.node)[0] < module.span(model)[0]] if found is not None else []
    for value in (value for binding in reversed(bindings) for value in binding_origins(module, binding)):
        start = module.span(value)[0]
        if any(name.endswith(MAKES) for edit in porting.around(start) for name in edit.calls):
            return True
        name = module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and name.endswith(".from_pretrained") and name.startswith(LOADERS):
            return False
    return None


def is_text(porting: Porting, node: cst.BaseExpression) -> bool:
    try:
        return isinstance(evaluate(porting.module, node), str)
    except Unknown:
        return False


def release_of_generation(porting: Porting, since: str) -> list[str]:
    """`transformers="4.31.0"` for what samples as the script's release did, where that is older than `since`."""
    version = plain_version(porting.versions.get("transformers", ""))
    return [f'transformers="{version}"'] if version and version_key(version) < version_key(since) else []


def settle_keywords(porting: Porting, site: Site, method: str, inputs: tuple[str, ...] = INPUTS) -> list[cst.Arg]:
    """A fate for every keyword of the call; the arguments that go."""
    call = site.node
    assert isinstance(call, cst.Call)
    target = "rt.generate" if method == "generate" else "rt.TextGenerationPipeline"
    dropped: list[cst.Arg] = []
    held = list(settings_in(porting, call))
    for argument in site.arguments:
        name = argument.name
        own = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name), None)
        place = argument.line, argument.column
        row = Field(f"{method}.{name}", shown(argument.text), "exact", target, "", site.rule, *place)
        if name in REFUSED_SETTINGS:
            if not _say_refused(porting, site, method, argument, held):
                row = Field(row.source, row.value, "dropped", "", "it is off", site.rule, *place)
                dropped += [own] if own is not None else []
            else:
                row = Field(row.source, row.value, "manual", "", REFUSED_SETTINGS[name][1], site.rule, *place)
        elif name == "tokenizer":
            row = Field(row.source, row.value, "exact", f"{target}(tokenizer=)", "", site.rule, *place)
        elif name in IDLE_SETTINGS:
            row = Field(row.source, row.value, "dropped", "", IDLE_SETTINGS[name], site.rule, *place)
            if own is not None:
                dropped.append(own)
        elif name == "streamer":
            reason = "the text comes when all of it is there"
            row = Field(row.source, row.value, "changed", f"{target}(streamer=)", reason, site.rule, *place)
        elif name not in GENERATION_DEFAULTS and name not in inputs:
            reason = "the port's generate knows no such setting"
            row = Field(row.source, row.value, "manual", "", reason, site.rule, *place)
            in_dict = [porting.module.code(value) for key, value in held if key == name and own is None]
            message = f"{method}({name}={shown(in_dict[0] if in_dict else argument.text)}): {reason}."
            porting.find(site.rule, "error", message, "Leave it out if it is the model's own.", *place)
        porting.fate(row)
    if held:
        _say_settings_of_dicts(porting, site, method, inputs, held)
    stays(porting, site.arguments)
    return dropped


def _say_refused(porting: Porting, site: Site, method: str, argument: Argument, held: list[Setting]) -> bool:
    """An error for each value that a refused setting may have; False where all of them ask for nothing."""
    name = argument.name
    values = [argument.node] if argument.node is not None else [value for key, value in held if key == name]
    asked = [value for value in values if not _is_off(porting, name, value)]
    for value in asked:
        _refuse(porting, site, f"{method}({name}={shown(porting.module.code(value))})", name, value)
    if not values:
        message = f"{method}({name}={shown(argument.text)}): {REFUSED_SETTINGS[name][1]}."
        porting.find(site.rule, "error", message, LEAVE_OUT, argument.line, argument.column)
    return bool(asked) or not values


def _refuse(porting: Porting, site: Site, said: str, name: str, value: cst.BaseExpression) -> None:
    message = f"{said}: {REFUSED_SETTINGS[name][1]}."
    porting.find(site.rule, "error", message, LEAVE_OUT, *porting.module.location(value))


def _say_settings_of_dicts(
    porting: Porting, site: Site, method: str, inputs: tuple[str, ...], held: list[Setting]
) -> None:
    """An error for each setting that rt.generate refuses in a dict that the call may be given as `**settings`."""
    known = {argument.name for argument in site.arguments}
    taken = {*GENERATION_DEFAULTS, *IDLE_SETTINGS, *inputs, "tokenizer", *known}
    for name, value in held:
        said = f"{method}({name}={shown(porting.module.code(value))})"
        if name in REFUSED_SETTINGS and name not in known:
            if not _is_off(porting, name, value):
                _refuse(porting, site, said, name, value)
        elif name not in taken:
            message, fix = (
                f"{said}: the port's generate knows no such setting.",
                "Leave it out if it is the model's own.",
            )
            porting.find(site.rule, "error", message, fix, *porting.module.location(value))


def _is_off(porting: Porting, name: str, node: cst.BaseExpression) -> bool:
    try:
        value = evaluate(porting.module, node)
    except Unknown:
        return False
    return asks_nothing(name, value)
