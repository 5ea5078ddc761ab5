"""A trainer's arguments, wherever they are made, and the defaults of its release → the Recipe.

First what the script gives (`given values`), then what another library puts in its place (`other defaults`, which
Unsloth's pack fills), then the release's own (`script values`). What a launch file says goes over them (`values`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...errors import InputError
from ...files import read_text
from ...recipe import Field, Value
from ...runtime.facts.field_tables import Row
from ..loops.loop_trainer import read_loop_parts
from ..packs.pack import TableRule
from ..receipts.marking import keep_object
from ..script.fill_from_tables import (
    config_table,
    fill_defaults,
    fill_site,
    follow,
    is_given,
    object_values,
    plain_versions,
    short_name,
    table_of,
)
from ..script.following.rebound import is_set_between
from ..script.sites import Argument, Site
from ..script.training import Training
from ..script.uses_of_training import role_uses
from ..steps.step import Phase, step
from .kept_configs import is_spread


@step(Phase.READ, of="trainer", fills=("given values", "arguments", "arguments_object", "config"))
def read_arguments(porting: Training) -> None:
    """Follow the trainer's `args=` to the config, and fill the Recipe with what both are given."""
    site = porting.trainer
    assert site is not None
    versions = plain_versions(porting)
    arguments = site.argument("args")
    porting.arguments = follow(porting, arguments, "arguments")
    config, table = porting.arguments, table_of(porting, porting.arguments) if porting.arguments is not None else None
    porting.config = config
    if arguments is not None and is_given(arguments) and not is_spread(porting, arguments, config, table):
        porting.arguments_object = _object_name(porting, site, arguments)
        porting.arguments = None
    if porting.loop is not None:
        read_loop_parts(porting, versions)
    else:
        fill_site(porting, site, table_of(porting, site), versions)
    if porting.arguments_object and config_table(porting) is not None:
        if config is not None and table is not None:
            fill_site(porting, replace(config, unknown_keywords=""), table, versions)
            keep_object(porting, config, porting.arguments_object, table.table)
        _read_object(porting, site, versions)
        _say_object(porting, arguments)
    elif porting.arguments is not None:
        fill_site(porting, porting.arguments, table_of(porting, porting.arguments), versions)


def _object_name(porting: Training, site: Site, arguments: Argument) -> str:
    """What the trainer's config is called in the port: a new name, where it has none, or not for as long as the
    trainer is used."""
    if re.fullmatch(r"[\w.]+", arguments.text) is None:
        return porting.fresh("training_args")
    if any(is_set_between(porting.module, arguments.node, use.outer) for use in role_uses(porting, "trainer")):
        return porting.fresh(f"{site.variable}_args" if site.is_bound and site.variable else "training_args")
    return arguments.text


def _read_object(porting: Training, site: Site, versions: Mapping[str, str]) -> None:
    """What is read of a config object when the port runs."""
    base = config_table(porting)
    assert base is not None
    if _holds_plain_arguments(porting, site):
        assert base.table.base is not None
        porting.fill(object_values(base.table.base.rows(versions), porting.arguments_object))
        return
    _say_trainers_own(porting, site, base)
    porting.fill(object_values(base.table.rows(versions), porting.arguments_object))
    porting.fill({row.place: argument.value for argument, row in _data_keywords(porting, site)})


@step(
    Phase.READ,
    of="trainer",
    reads=("given values", "other defaults", "arguments", "arguments_object"),
    fills=("script values",),
)
def read_defaults(porting: Training) -> None:
    """What the release of the source takes where neither the script nor another library says a value."""
    site, base, versions = porting.trainer, config_table(porting), plain_versions(porting)
    assert site is not None
    if porting.arguments is not None:
        fill_defaults(porting, table_of(porting, porting.arguments), versions)
    if base is not None and (not porting.arguments_object or _holds_plain_arguments(porting, site)):
        fill_defaults(porting, base, versions)
    if table_of(porting, site).kind == "causal-lm" and not is_given(site.argument("args")):
        porting.fill({"run.output_dir": Value("default", "'tmp_trainer'")})  # what Trainer makes its arguments with


def _holds_plain_arguments(porting: Training, site: Site) -> bool:
    """Whether the config object of a preference trainer is one of transformers' TrainingArguments: the trainer itself
    is given what a DPOConfig holds since TRL 0.9, `beta=0.1`. Releases up to 0.12 took both."""
    rule = table_of(porting, site)
    imported = [
        binding for scope in porting.module.scopes.values() for found in scope.bindings.values() for binding in found
    ]
    if any(binding.kind == "import" and binding.qualified.endswith(".DPOConfig") for binding in imported):
        return False
    rows = [rule.table.row(argument.name) for argument in site.arguments]
    return rule.kind == "dpo" and any(row is not None and row.until == "0.13" for row in rows)


@step(Phase.READ, of="trainer", reads=("script values",), fills=("memory.fsdp_activation_checkpointing",))
def read_fsdp_config(porting: Training) -> None:
    """`fsdp_config={"activation_checkpointing": True}`, or the JSON file that it names, asks for remat."""
    value = porting.value("mesh.fsdp_config")
    if value is None or not value.known or not value.literal:
        return
    settings = value.literal
    if isinstance(settings, str):
        file = Path(porting.module.path).parent / settings
        try:
            settings = json.loads(read_text(file))
        except (OSError, ValueError, InputError, RecursionError) as error:
            line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
            message = f"fsdp_config={value.text or value.code}: the file can't be read ({error})."
            porting.find("TP301", "error", message, "Put it beside the script.", line, column)
            return
    if isinstance(settings, dict) and settings.get("activation_checkpointing") in (True, "true", "True"):
        porting.fill({"memory.fsdp_activation_checkpointing": Value("literal", "True", value.origin)})


def _say_trainers_own(porting: Training, site: Site, base: TableRule) -> None:
    """Keywords of an older trainer (`model_init_kwargs=`) beside a config object: the object has to hold them."""
    names = {row.place: row.name for row in base.table.rows().values() if row.place}
    written = {argument.name for argument, _ in _data_keywords(porting, site)}
    for argument in site.arguments:
        if argument.name in written:
            continue
        row = table_of(porting, site).table.row(argument.name)
        name = names.get(row.place) if row is not None else None
        if name is None or name in ("dataset_text_field",) or argument.value.is_literal(None):
            continue
        source = f"{short_name(site)}.{argument.name}={argument.text}"
        message = f"{source}: the port reads it from {porting.arguments_object}."
        fix = f"Set {porting.arguments_object}.{name} before the trainer is made."
        porting.find(site.rule, "error", message, fix, argument.line, argument.column)


OF_MODELS = ("model_init_kwargs", "ref_model_init_kwargs")


def _data_keywords(porting: Training, site: Site) -> list[tuple[Argument, Row]]:
    """The trainer's own keywords that say how rows are prepared, `max_seq_length=`, and a DPOTrainer's loss: they win
    over the config's."""
    table = table_of(porting, site).table
    rows = [(argument, table.row(argument.name)) for argument in site.arguments]
    pairs = table_of(porting, site).kind == "dpo"  # whose trainer was given beta and the loss as well
    prepared = (
        "data.max_length",
        "data.text_field",
        "data.packing",
        "data.num_proc",
        "data.kwargs",
        "data.eval_packing",
    )
    return [
        (argument, row)
        for argument, row in rows
        if row is not None
        and (row.place in prepared or (pairs and row.place and row.until == "0.13" and row.name not in OF_MODELS))
        and not argument.value.is_literal(None)
    ]


def _say_object(porting: Training, argument: Argument | None) -> None:
    assert argument is not None
    reason = "decided when the script runs: same flags, YAML and defaults; what has no counterpart is refused at start"
    target = f"{porting.runtime_module('arguments')}, read where each value is used"
    assert porting.trainer is not None
    rule = table_of(porting, porting.trainer).id
    source = f"{short_name(porting.trainer)}.args"
    porting.fate(Field(source, argument.text, "exact", target, reason, rule, argument.line, argument.column))
