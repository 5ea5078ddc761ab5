"""What a DeepSpeed config does to a training, as transformers fills it in and checks it.

A value is "auto", which the arguments fill, or has to equal theirs: transformers 5.12 doesn't start otherwise
(`HfTrainerDeepSpeedConfig.trainer_config_process` and `_finalize`). An optimizer or a schedule in it takes the place of
`optim` and `lr_scheduler_type` (`deepspeed_optim_sched`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import InputError
from ....recipe import Origin, Value
from ....source.launch.deepspeed import TABLE, from_dict, read_deepspeed
from ....source.launch.launch_config import Setting, beside
from ...script.porting import Porting

RULE = "TP402"
# DeepSpeed's setting → the keyword it has to equal, and where that stands in the recipe.
EQUAL = {
    "train_micro_batch_size_per_gpu": ("per_device_train_batch_size", "batch.per_device"),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", "batch.accumulation"),
    "gradient_clipping": ("max_grad_norm", "optimizer.max_grad_norm"),
    "optimizer.params.lr": ("learning_rate", "optimizer.learning_rate"),
    "optimizer.params.eps": ("adam_epsilon", "optimizer.epsilon"),
    "optimizer.params.weight_decay": ("weight_decay", "optimizer.weight_decay"),
    "scheduler.params.warmup_max_lr": ("learning_rate", "optimizer.learning_rate"),
    "bf16.enabled": ("bf16", "precision.bf16"),
    "fp16.enabled": ("fp16", "precision.fp16"),
}
ADAMW = ("AdamW", "Adam")
SCHEDULES = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
# Settings of a schedule that `rt.hf_schedule` takes, with DeepSpeed's defaults.
SHAPES = {"warmup_min_lr": 0.0, "warmup_type": "log", "warmup_min_ratio": 0.0, "cos_min_ratio": 0.0001}


def named_settings(porting: Porting, launch: Sequence[Setting]) -> tuple[Setting, ...]:
    """The settings that `deepspeed=` in the arguments brings, when the launch files don't bring them already.

    A file that isn't there or is no DeepSpeed config stays a finding.
    """
    value = porting.value("mesh.deepspeed")
    if value is None or not value.known or not value.literal:
        return ()
    if any(setting.table == TABLE for setting in launch):
        _resolve(porting, "the launch files say what it says")
        return ()
    given = value.literal
    try:
        if isinstance(given, dict):
            settings = tuple(from_dict(given, Path(porting.module.path)))
        elif str(given).lstrip().startswith("{"):  # transformers takes the JSON itself, too
            settings = read_deepspeed(Path(porting.module.path), str(given))
        else:
            settings = read_deepspeed(beside(Path(porting.module.path), str(given)))
    except InputError as error:
        line, column = (value.origin.line, value.origin.column) if value.origin is not None else (1, 1)
        _resolve(porting, "")
        fix = f"{error.fix[:1].upper()}{error.fix[1:]}, or give the file with --launch-config."
        porting.change_fate(".deepspeed", fate="manual", reason="the file can't be read")
        porting.find(RULE, "error", f"deepspeed={value.text or value.code}: {error.message}.", fix, line, column)
        return ()
    _resolve(porting, "its settings are rows of their own")
    return settings


def apply_deepspeed(porting: Porting, settings: Sequence[Setting]) -> None:
    """Fill in what DeepSpeed decides, and name what contradicts the arguments."""
    given = {setting.row or setting.name: setting for setting in settings if setting.table == TABLE}
    if not given:
        return
    for name, setting in given.items():
        if setting.value == "auto":
            reason = "auto: the arguments' own value"
            porting.change_fate(_source(setting), fate="exact", reason=reason)
        elif (wanted := _wanted(porting, name)) is not None and not _same(setting.value, wanted[1]):
            _contradiction(porting, setting, *wanted)
    _optimizer(porting, given)
    _schedule(porting, given)


def _wanted(porting: Porting, name: str) -> tuple[str, Any] | None:
    """The keyword that a setting has to equal, and its value where that is known."""
    if name in EQUAL:
        keyword, place = EQUAL[name]
        value = porting.known(place)
        return None if value is None else (keyword, value)
    if name == "train_batch_size":
        factors = [porting.known(place) for place in ("mesh.processes", "batch.per_device", "batch.accumulation")]
        if all(isinstance(factor, int) for factor in factors):
            return "processes x per_device_train_batch_size x gradient_accumulation_steps", math.prod(factors)
    if name == "optimizer.params.betas":
        betas = [porting.known("optimizer.beta1"), porting.known("optimizer.beta2")]
        return ("adam_beta1 and adam_beta2", betas) if None not in betas else None
    if name == "scheduler.params.warmup_num_steps":
        steps = porting.known("schedule.warmup_steps")
        ratio = porting.value("schedule.warmup_ratio")
        plain = ratio is None or ratio.is_literal(None, 0, 0.0)
        return ("warmup_steps", steps) if plain and steps is not None and (steps == 0 or steps >= 1) else None
    return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return bool(one == other)


def _contradiction(porting: Porting, setting: Setting, keyword: str, value: Any) -> None:
    site = porting.trainer
    assert site is not None
    reason = f"transformers doesn't start while {keyword} is {value}"
    porting.change_fate(_source(setting), fate="manual", target="", reason=reason)
    message = f"{_source(setting)} is {setting.value}, but {keyword} is {value}: transformers doesn't start with both."
    porting.find(RULE, "error", message, 'Correct one of them, or write "auto" there.', site.line, site.column)


def _optimizer(porting: Porting, given: dict[str, Setting]) -> None:
    kind = given.get("optimizer.type")
    if kind is None or kind.value not in ADAMW:
        return
    if porting.arguments_object:
        _say_object(porting, kind, "optim", "adamw_torch")
        return
    porting.fill({"optimizer.name": _literal("adamw_torch", kind), "optimizer.deepspeed": _literal(kind.value, kind)})
    porting.change_fate(".optim", fate="dropped", target="", reason=f"DeepSpeed's {kind.value} takes its place")


def _schedule(porting: Porting, given: dict[str, Setting]) -> None:
    kind = given.get("scheduler.type")
    if kind is None or kind.value not in SCHEDULES:
        return
    if porting.arguments_object:
        _say_object(porting, kind, "lr_scheduler_type", kind.value)
        return
    kwargs = {}
    for name, default in SHAPES.items():
        setting = given.get(f"scheduler.params.{name}")
        if setting is not None and setting.value not in ("auto", default):
            kwargs[name] = setting.value
    porting.fill({"schedule.name": _literal(kind.value, kind), "schedule.kwargs": _literal(kwargs or None, kind)})
    reason = f"DeepSpeed's {kind.value} takes its place"
    porting.change_fate(".lr_scheduler_type", fate="dropped", target="", reason=reason)
    porting.change_fate(".lr_scheduler_kwargs", fate="dropped", target="", reason=reason)
    rise = "on a logarithm" if kwargs.get("warmup_type", "log") != "linear" else "in a line"
    target = f'rt.hf_schedule("{kind.value}")'
    reason = f"DeepSpeed's schedule in the place of lr_scheduler_type: it warms up {rise}, from the second step on"
    porting.change_fate(_source(kind), fate="exact", target=target, reason=reason)


def _say_object(porting: Porting, setting: Setting, keyword: str, value: str) -> None:
    """The config object decides at run time: what DeepSpeed decides has to be put into it."""
    site = porting.trainer
    assert site is not None
    message = f"{_source(setting)}={setting.value} takes the place of {keyword}, which the config object decides."
    fix = f'Set {porting.arguments_object}.{keyword} = "{value}" before the trainer.'
    porting.find(RULE, "error", message, fix, site.line, site.column)


def _literal(value: Any, setting: Setting) -> Value:
    return Value("literal", repr(value), Origin(str(setting.file), setting.line, 1, RULE))


def _source(setting: Setting) -> str:
    return f"{setting.file.name}: {setting.name}"


def _resolve(porting: Porting, reason: str) -> None:
    """Take back what was said of `deepspeed=` before its file was read."""
    porting.change_fate(".deepspeed", fate="dropped", target="", reason=reason)
    said = [finding for finding in porting.recipe.findings if ".deepspeed=" in finding.message]
    kept = tuple(finding for finding in porting.recipe.findings if finding not in said)
    porting.recipe = replace(porting.recipe, findings=kept)
    for finding in said:
        left = [comment for comment in porting.todos.get(finding.line, ()) if ".deepspeed=" not in comment]
        if left:
            porting.todos[finding.line] = left
        else:
            porting.todos.pop(finding.line, None)
