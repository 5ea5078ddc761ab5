"""The launch config's processes and settings → the Recipe, each with its fate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....recipe import Fate, Field, Origin, Value, literal_code
from ....runtime.settings.zero_config import IGNORED, is_ignored, row_of
from ....source.launch.settings import INLINE
from ...packs.said_by_packs import launchers
from ...script.fill_from_tables import judge
from ...script.training import Training
from ...steps.step import Phase, step
from ..master_weights import each_load, settle_masters
from ..precision import read_precision, under_fsdp
from .untold_launch import untold_launch

MIXED, ASKED = "mesh.mixed_precision", "precision.bf16"
HALF = ("bf16", "fp16")


@step(
    Phase.READ,
    of="trainer",
    reads=("settings", "script values", "pack values", "arguments_object", "config"),
    fills=("values",),
)
def read_launch(porting: Training) -> None:
    """The launch config's processes and settings, each with its fate; they go over the script's own."""
    packs, settings = porting.packs, porting.settings
    tables = {rule.table.name: rule for pack in packs for rule in pack.tables if rule.role == "launch"}
    own = launchers(packs)
    values: dict[str, Value] = {}
    for setting in settings:
        rule = tables.get(setting.table)
        row = row_of(rule.table if rule is not None else None, setting.row or setting.name)
        name = rule.id if rule is not None else ""
        value = Value("literal", literal_code(setting.value), Origin(str(setting.file), setting.line, 1, name))
        source = f"{setting.file.name}: {setting.name}"
        fate: Fate = "dropped"
        reason, target = "a setting of the GPU launcher", ""
        if row is None and rule is not None and "unknown" in rule.head:
            fate, reason = "manual", str(rule.head["unknown"])
            if setting.file.suffix not in INLINE and is_ignored(rule.table, setting.row or setting.name):
                fate, reason = "dropped", IGNORED
                if porting.trainer is not None:
                    fix = "Take it out, or say in the arguments what was meant by it."
                    line, column = porting.trainer.line, porting.trainer.column
                    porting.find(name, "warning", f"{source}={setting.value}: {reason}.", fix, line, column)
        if row is None and setting.table in own:
            fate, reason = "manual", f"no setting that the table of {setting.table} knows"
        if row is not None:
            fate, reason = judge(value, row)
            target = row.target if fate != "dropped" else ""
            if row.place:
                values[row.place] = value
            if row.place and setting.table in own:
                _say_over(porting, row.place, source)
        if setting.usual and fate == "exact":
            fate, reason = "changed", "the default of what only the shell knows"
            if porting.options.processes is None and porting.trainer is not None:
                message = f"{source}={setting.value} is {reason}: the GPU run may have had another."
                fix = "Give --processes N if it had other processes." if row and row.place == "mesh.processes" else ""
                porting.find(name, "warning", message, fix, porting.trainer.line, porting.trainer.column)
        if fate == "manual" and porting.trainer is not None:
            message = f"{source}={setting.value}: {reason.rstrip('.')}."
            porting.find(name, "error", message, "", porting.trainer.line, porting.trainer.column)
        if row is not None and row.place == "mesh.processes" and porting.options.processes is not None:
            fate, target, reason = "dropped", "", f"--processes {porting.options.processes} is given in its place"
        porting.fate(Field(source, str(setting.value), fate, target, reason, name, setting.line, 1))
    if porting.options.processes is not None:
        values["mesh.processes"] = Value("literal", str(porting.options.processes))
    elif "mesh.processes" not in values and porting.trainer is not None:
        untold = untold_launch(porting)
        values["mesh.processes"] = Value("default", str(untold.processes))
        line, column = porting.trainer.line, porting.trainer.column
        porting.find("TP401", untold.severity, untold.said, untold.advice, line, column)
    porting.fill(values)
    mixed = values.get(MIXED)
    if porting.known(MIXED) in HALF and mixed and not porting.arguments_object and porting.known(ASKED) is not True:
        porting.fill({ASKED: Value("literal", "True", mixed.origin)})


@step(
    Phase.READ,
    of="trainer",
    reads=(
        *("values", "settings", "config", "arguments_object", "lora", "lora_certain"),
        *("model", "model.dtype", "loads", "inject", "foreign_model"),
    ),
    settles=("model.weights", "model.compute", "model.quantization"),
    fills=("model.masters", "model.sharded", "model.frozen", "model.merged"),
)
def read_types_under_fsdp(porting: Training) -> None:
    """In which types a model is held that FSDP or DeepSpeed shards: the launcher's word is the last one."""
    for view in each_load(porting):
        launched = under_fsdp(view) or view.known(MIXED) in HALF
        if launched and not porting.arguments_object:
            read_precision(view)
        settle_masters(view, porting.settings)
    asked, mixed = porting.value(ASKED), porting.value(MIXED)
    if asked is not None and mixed is not None and asked.origin is not None and asked.origin == mixed.origin:
        reason = f"mixed_precision of {Path(mixed.origin.file).name} goes over it" if mixed.origin else ""
        porting.change_fate(".bf16", fate="dropped", target="", reason=reason)


def _say_over(porting: Training, place: str, source: str) -> None:
    """A keyword of the script that the launcher sets as well: the launcher's word is the last one."""
    value = porting.value(place)
    if value is None or value.kind == "default" or value.origin is None:
        return
    for row in porting.fields:
        if (row.line, row.column) == (value.origin.line, value.origin.column) and row.fate in ("exact", "changed"):
            porting.fate(replace(row, fate="dropped", target="", reason=f"{source} goes over it"))
