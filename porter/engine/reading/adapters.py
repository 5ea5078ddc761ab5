"""The LoRA config that a trainer or `get_peft_model` is given → the Recipe: spread in the port, or kept an object."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from ...runtime.facts.field_tables import at_version
from ..packs.said_by_packs import title_of
from ..receipts.marking import keep_object
from ..script.fill_from_tables import (
    argument_at,
    fill_defaults,
    fill_site,
    follow,
    object_values,
    plain_versions,
    short_name,
    table_of,
    tables_of,
)
from ..script.flow import is_same, origins
from ..script.following.may_be_none import may_be_none
from ..script.sites import Argument, facts_of
from ..script.training import Training
from ..steps.step import Phase, step
from .checkpoints.saved_adapters import is_saved, read_saved
from .kept_configs import adapters_are_spread
from .pack_readings import settle

CONFIG = "lora.config"  # the place of their config in a trainer's table


@step(
    Phase.READ,
    of="trainer",
    reads=("model", "inject", "model.full_finetuning", "script values"),
    settles=("memory.library_gradient_checkpointing",),
    fills=("lora", "lora.*", "lora_object", "lora_certain", "model.object"),
)
def read_lora(porting: Training) -> None:
    """Follow the config of adapters of the trainer or of `get_peft_model`; no config is full fine-tuning."""
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
    config = argument_at(porting, site, CONFIG)
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
    name = config.text if config.reference is not None else porting.fresh(config.name)
    for text in dict.fromkeys((name, config.text)):  # a call is written under a name, or as it stands
        keep_object(porting, made, text, rule.table)
    porting.fill(object_values(rule.table.rows(versions), name))
    target, reason = "rt.apply_peft", "decided when the script runs; what has no counterpart is refused at start"
    porting.change_fate(f"{short_name(site)}.{config.name}", target=target, reason=reason)


def passes_over_config(porting: Training) -> bool:
    """Whether the trainer's release takes no notice of its `peft_config`, as the model has adapters already."""
    trainer = porting.trainer
    if trainer is None or porting.inject is None or argument_at(porting, trainer, CONFIG) is None:
        return False
    return _of_both(porting, table_of(porting, trainer).kind)[0] == "ignores"


def _say_second_config(porting: Training) -> None:
    """A trainer is given a model with adapters and a `peft_config`: what its release makes of both."""
    trainer = porting.trainer
    given = argument_at(porting, trainer, CONFIG) if trainer is not None else None
    if trainer is None or porting.inject is None or given is None or given.value.is_literal(None):
        return
    does, release = _of_both(porting, table_of(porting, trainer).kind)
    config = argument_at(porting, porting.inject, CONFIG)
    first, second = config.node if config is not None else None, given.node
    same = first is not None and second is not None and is_same(porting.module, first, second)
    rewritten = porting.inject.qualified.partition(".")[0] in facts_of(porting.module).rewrites_trainers
    if does not in ("ignores", "refuses") and not same and not rewritten:
        what = "merges the model's adapters" if does == "merges" else "puts adapters into those that the model has"
        message = f"{short_name(trainer)} of {release} {what} and trains new ones of {given.name}={given.text}."
        fix = "Give the trainer a model without adapters, merged before, and peft_config; or leave peft_config out."
        porting.find(trainer.rule, "error", message, fix, given.line, given.column)
    reason = {
        "ignores": f"the model has its adapters already, and {release} takes no notice of it",
        "refuses": f"the model has its adapters already; {release} refuses both",
    }.get(does, "the model has adapters of the same config, which nothing has trained")
    porting.change_fate(f"{short_name(trainer)}.{given.name}", fate="dropped", target="", reason=reason)


def _of_both(porting: Training, kind: str) -> tuple[str, str]:
    """What a kind of trainer makes of a model with adapters beside their config, as its table says, and in which
    release: it `ignores` the config, `merges` the adapters into the base, `nests` new ones in them, or `refuses` both.
    """
    said = [rule for rule in tables_of(porting).values() if rule.kind == kind and "adapters_beside" in rule.head]
    if not said:
        return "ignores", ""
    release = plain_versions(porting).get(said[0].library, "")
    does = at_version(said[0].head["adapters_beside"], release or "99") or "ignores"
    return does, f"{title_of(porting.packs, said[0].library)} {release}"


def _refuse_other_config(porting: Training, config: Argument) -> None:
    """PEFT's other methods, `PromptTuningConfig(...)`: Qwix has LoRA."""
    libraries = "|".join({name.partition(".")[0] for name, rule in tables_of(porting).items() if rule.role == "lora"})
    for value in origins(porting.module, config.node):
        name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and re.fullmatch(rf"(?:{libraries})\.\w+Config", name):
            message = f"{name.partition('.')[2]}: Qwix trains LoRA adapters; PEFT's other methods have no counterpart."
            porting.find("TP201", "error", message, "Train with LoraConfig.", *porting.module.location(value))
