"""The LoRA config that a trainer or `get_peft_model` is given → the Recipe: spread in the port, or kept an object."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from ...runtime.facts.field_tables import version_key
from ..receipts.marking import keep_object
from ..script.fill_from_tables import (
    fill_defaults,
    fill_site,
    follow,
    object_values,
    plain_versions,
    short_name,
    table_of,
)
from ..script.flow import is_same, origins
from ..script.following.may_be_none import may_be_none
from ..script.sites import Argument
from ..script.training import Training
from ..steps.step import Phase, step
from .checkpoints.saved_adapters import is_saved, read_saved
from .kept_configs import adapters_are_spread
from .pack_readings import settle


@step(
    Phase.READ,
    of="trainer",
    reads=("model", "inject", "script values"),
    settles=("memory.unsloth_gradient_checkpointing",),
    fills=("lora", "lora.*", "lora_object", "lora_certain", "model.object"),
)
def read_lora(porting: Training) -> None:
    """Follow `peft_config=` of the trainer or of `get_peft_model`; no config is full fine-tuning."""
    site, versions = porting.inject or porting.trainer, plain_versions(porting)
    assert site is not None
    _say_second_config(porting)
    if is_saved(porting, site):
        read_saved(porting, site, versions)
        return
    own = table_of(porting, site)
    if own.head.get("adapters"):  # the call is their config, and puts them in
        porting.lora, porting.lora_certain = site, True
        fill_site(porting, site, own, versions)
        fill_defaults(porting, own, versions)
        settle(porting, site)
        return
    config = site.argument("peft_config")
    if config is None or config.value.known:  # a literal is None, or a finding
        if site is porting.inject:
            porting.lora_object = "None"
            message = f"{short_name(site)} is given no config of adapters that can be read here."
            porting.find(site.rule, "error", message, "Write a LoraConfig at the call.", site.line, site.column)
        return
    made = follow(porting, config, "lora")
    if made is None:
        porting.lora_object = config.text
        _refuse_other_config(porting, config)
        return
    rule = table_of(porting, made)
    porting.lora_certain = not may_be_none(porting.module, config.node)
    if porting.lora_certain and adapters_are_spread(porting, config, made, rule, site):
        porting.lora = made
        fill_site(porting, made, rule, versions)
        fill_defaults(porting, rule, versions)
        return
    porting.lora_object = config.text
    fill_site(porting, replace(made, unknown_keywords=""), rule, versions)
    name = config.text if config.reference is not None else porting.fresh("peft_config")
    for text in dict.fromkeys((name, config.text)):  # a call is written under a name, or as it stands
        keep_object(porting, made, text, rule.table)
    porting.fill(object_values(rule.table.rows(versions), name))
    target, reason = "rt.apply_peft", "decided when the script runs; what has no counterpart is refused at start"
    porting.change_fate(".peft_config", target=target, reason=reason)


def _say_second_config(porting: Training) -> None:
    """A trainer is given a model with adapters and a `peft_config`: what its release makes of both."""
    trainer = porting.trainer
    given = trainer.argument("peft_config") if trainer is not None else None
    if trainer is None or porting.inject is None or given is None or given.value.is_literal(None):
        return
    kind, trl = table_of(porting, trainer).kind, plain_versions(porting).get("trl", "")
    does, config = _of_both(kind, trl), porting.inject.argument("peft_config")
    first, second = config.node if config is not None else None, given.node
    same = first is not None and second is not None and is_same(porting.module, first, second)
    if does not in ("ignores", "refuses") and not same and not porting.inject.qualified.startswith("unsloth."):
        what = "merges the model's adapters" if does == "merges" else "puts adapters into those that the model has"
        message = f"{short_name(trainer)} of TRL {trl} {what} and trains new ones of peft_config={given.text}."
        fix = "Give the trainer a model without adapters, merged before, and peft_config; or leave peft_config out."
        porting.find(trainer.rule, "error", message, fix, given.line, given.column)
    reason = {
        "ignores": f"the model has its adapters already, and TRL {trl} takes no notice of it",
        "refuses": f"the model has its adapters already; TRL {trl} refuses both",
    }.get(does, "the model has adapters of the same config, which nothing has trained")
    porting.change_fate(f"{short_name(trainer)}.peft_config", fate="dropped", target="", reason=reason)


# What a release makes of a PeftModel beside a peft_config, as its trainers' source says: newest first.
OF_BOTH = {
    "sft": (("0.27", "refuses"), ("0.22", "merges"), ("0.20", "nests"), ("0", "ignores")),
    "grpo": (("0.27", "refuses"), ("0.22", "merges"), ("0", "nests")),
    "preferences": (("0.27", "refuses"), ("0", "merges")),
}


def _of_both(kind: str, trl: str) -> str:
    """`ignores` the config, `merges` the adapters into the base, `nests` new ones in them, or `refuses` both."""
    group = {"sft": "sft", "gkd": "sft", "grpo": "grpo", "rloo": "grpo"}.get(kind, "preferences")
    return next((does for since, does in OF_BOTH[group] if version_key(trl or "99") >= version_key(since)), "ignores")


def _refuse_other_config(porting: Training, config: Argument) -> None:
    """PEFT's other methods, `PromptTuningConfig(...)`: Qwix has LoRA."""
    for value in origins(porting.module, config.node):
        name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and re.fullmatch(r"peft\.\w+Config", name):
            message = (
                f"{name.removeprefix('peft.')}: Qwix trains LoRA adapters; PEFT's other methods have no counterpart."
            )
            porting.find("TP201", "error", message, "Train with LoraConfig.", *porting.module.location(value))
