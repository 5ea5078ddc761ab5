"""What a DeepSpeed config does to a training, as transformers fills it in and checks it.

A value is "auto", which the arguments fill, or has to equal theirs: transformers 5.12 doesn't start otherwise
(`HfTrainerDeepSpeedConfig.trainer_config_process` and `_finalize`). An optimizer or a schedule in it takes the place of
`optim` and `lr_scheduler_type` (`deepspeed_optim_sched`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from porter.packs.api import Argument, Origin, Phase, Severity, Value, step
from porter.packs.launch import (
    ADAMW,
    CONFIG_FILE,
    EQUAL,
    INLINE,
    SCHEDULES,
    SHAPES,
    TABLE,
    InputError,
    Setting,
    accelerate_beside,
    accumulation_left_out,
    beside,
    from_dict,
    literal_code,
    read_deepspeed,
    refused_settings,
    same,
)
from porter.packs.script import plain_version
from porter.packs.training import Training, also, said_usually

PART_OF = "accelerate"
RULE = "TP402"

# DeepSpeed's setting → where the keyword that it has to equal stands in the recipe.
PLACES = {
    "per_device_train_batch_size": "batch.per_device",
    "gradient_accumulation_steps": "batch.accumulation",
    "max_grad_norm": "optimizer.max_grad_norm",
    "learning_rate": "optimizer.learning_rate",
    "adam_epsilon": "optimizer.epsilon",
    "weight_decay": "optimizer.weight_decay",
    "bf16": "precision.bf16",
    "fp16": "precision.fp16",
}
# What a setting is about that equals no keyword: by its name, or its section's.
SECTIONS = {
    "train_batch_size": ("batch.per_device", "batch.accumulation"),
    "gradient_clipping": ("optimizer.max_grad_norm",),
    "bf16": ("precision.bf16",),
    "fp16": ("precision.fp16",),
    "optimizer": ("optimizer.name",),
    "scheduler": ("schedule.name",),
}


@step(Phase.READ, of="trainer", reads=("script values", "config", "arguments_object"), fills=("settings",))
def read_named_settings(porting: Training) -> None:
    """The settings of the launch files, and those that the arguments bring."""
    porting.settings = (*porting.launch, *_named_settings(porting, porting.launch))


def _named_settings(porting: Training, launch: Sequence[Setting]) -> tuple[Setting, ...]:
    """The settings that `deepspeed=` in the arguments brings, when the launch files don't bring them already.

    A file that isn't there or is no DeepSpeed config stays a finding.
    """
    value = porting.value("mesh.zero")
    kept = porting.config.argument("deepspeed") if porting.config is not None and porting.arguments_object else None
    if kept is not None and kept.value.known:
        _resolve(porting, "")
        reason = "its file is read when the script starts, and what has no counterpart is refused then"
        porting.change_fate(".deepspeed", fate="changed", target="porter.runtime.arguments", reason=reason)
    if kept is not None and not kept.value.known and not any(setting.table == TABLE for setting in launch):
        _say_of_usual_file(porting, kept)
    if value is None or not value.known or not value.literal:
        return ()
    if any(setting.table == TABLE for setting in launch):
        _resolve(porting, "the launch files say what it says")
        return ()
    try:
        settings = _read(porting, value.literal)
    except InputError as error:
        line, column = (value.origin.line, value.origin.column) if value.origin is not None else (1, 1)
        _resolve(porting, "")
        fix = f"{error.fix[:1].upper()}{error.fix[1:]}, or give the file with --launch-config."
        porting.change_fate(".deepspeed", fate="manual", reason="the file can't be read")
        porting.find(RULE, "error", f"deepspeed={value.text or value.code}: {error.message}.", fix, line, column)
        return ()
    _resolve(porting, "its settings are rows of their own")
    return settings


def _say_of_usual_file(porting: Training, kept: Argument) -> None:
    """What of the file that is named unless the user says another ends the port at its start, where it is read."""
    told = said_usually(porting.module, kept, porting.config) if porting.config is not None else None
    if told is None or not isinstance(told[0].literal, str | dict) or not told[0].literal:
        return
    given, source = told[0].literal, f"{' '.join(kept.text.split())}: {told[1]} {told[0].code}"
    fix = "Give one that is there: the port reads it at its start, and says then what of it has no counterpart."
    try:
        settings = _read(porting, given)
    except InputError as error:
        message = f"deepspeed={source}: it {error.message}."
        porting.find(RULE, "warning", message, fix, kept.line, kept.column)
        return
    values = {setting.row or setting.name: setting.value for setting in settings if setting.table == TABLE}
    wrong = [*refused_settings(values), *_contradicted(porting, values)]
    reason = "the file is read when the script starts, and what has no counterpart is refused then"
    fate, target = ("manual", "") if wrong else ("changed", "porter.runtime.arguments")
    porting.change_fate(".deepspeed", fate=fate, target=target, reason=reason)
    for said in wrong:
        message = f"deepspeed={source}, with which the port ends at its start: {said}."
        fix = "Take that out of the file, or give another."
        porting.find(RULE, "error", message, fix, kept.line, kept.column)


def _contradicted(porting: Training, values: dict[str, Any]) -> Iterator[str]:
    """What `take_deepspeed` of the runtime finds at the start, where the call that makes the config says it."""

    def said(keyword: str) -> Any:
        argument = porting.config.argument(keyword) if porting.config is not None else None
        return argument.value.literal if argument is not None and argument.value.known else None

    for name, keyword in EQUAL.items():
        given, asked = values.get(name, "auto"), said(keyword)
        if given != "auto" and asked is not None and not same(given, asked):
            yield f"{name}={given}: {keyword} is {asked}, and transformers doesn't start with both"
    if values.get("optimizer.type") in ADAMW and said("weight_decay"):
        yield "optimizer: DeepSpeed's decays norms and biases, too; leave it out, or set weight_decay=0"
    transformers = plain_version(porting.versions.get("transformers", "")) or None
    if said("gradient_accumulation_steps") not in (None, 1) and (why := accumulation_left_out(values, transformers)):
        yield f"gradient_accumulation_steps isn't set, {why}; write it there"


def _read(porting: Training, given: Any) -> tuple[Setting, ...]:
    """The settings of a config: the script's own, a file's, or JSON, which transformers takes, too."""
    path = Path(porting.module.path)
    if isinstance(given, dict):
        return tuple(from_dict(given, path))
    if str(given).lstrip().startswith("{"):
        return read_deepspeed(path, str(given))
    return read_deepspeed(beside(path, str(given)))


@step(Phase.READ, of="trainer", reads=("values", "settings", "arguments_object"), fills=("optimizer.*", "schedule.*"))
def apply_deepspeed(porting: Training) -> None:
    """Fill in what DeepSpeed decides, and name what contradicts the arguments."""
    given = {setting.row or setting.name: setting for setting in porting.settings if setting.table == TABLE}
    if not given:
        return
    for name, setting in given.items():
        for place in said_at(name):
            also(porting, place, setting.file.name, setting.line)
        if setting.value == "auto":
            reason = "auto: the arguments' own value"
            porting.change_fate(_source(setting), fate="exact", reason=reason)
        elif (wanted := _wanted(porting, name)) is not None and not same(setting.value, wanted[1]):
            _contradiction(porting, setting, *wanted)
    _optimizer(porting, given)
    _schedule(porting, given)
    _clipping(porting, given)
    _accumulation(porting, given)


def said_at(name: str) -> tuple[str, ...]:
    """The places of the Recipe whose values a setting is about."""
    if name in EQUAL and EQUAL[name] in PLACES:
        return (PLACES[EQUAL[name]],)
    section = name.partition(".")[0]
    if name == "optimizer.params.betas":
        return ("optimizer.beta1", "optimizer.beta2")
    return SECTIONS.get(name, SECTIONS.get(section, ()))


def _wanted(porting: Training, name: str) -> tuple[str, Any] | None:
    """The keyword that a setting has to equal, and its value where that is known."""
    if name in EQUAL:
        keyword = EQUAL[name]
        value = porting.known(PLACES[keyword])
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


def _contradiction(porting: Training, setting: Setting, keyword: str, value: Any) -> None:
    site = porting.trainer
    assert site is not None
    reason = f"transformers doesn't start while {keyword} is {value}"
    porting.change_fate(_source(setting), fate="manual", target="", reason=reason)
    message = f"{_source(setting)} is {setting.value}, but {keyword} is {value}: transformers doesn't start with both."
    porting.find(RULE, "error", message, 'Correct one of them, or write "auto" there.', site.line, site.column)


def _optimizer(porting: Training, given: dict[str, Setting]) -> None:
    kind = given.get("optimizer.type")
    if kind is None or kind.value not in ADAMW:
        return
    if porting.arguments_object:
        _say_object(porting, kind, "optim", "adamw_torch")
        return
    porting.fill({"optimizer.name": _literal("adamw_torch", kind), "optimizer.deepspeed": _literal(kind.value, kind)})
    porting.change_fate(".optim", fate="dropped", target="", reason=f"DeepSpeed's {kind.value} takes its place")


def _schedule(porting: Training, given: dict[str, Setting]) -> None:
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


def _clipping(porting: Training, given: dict[str, Setting]) -> None:
    """DeepSpeed clips gradients itself, and where its own file doesn't ask for it, nothing does."""
    first = next(iter(given.values()))
    norm = porting.value("optimizer.max_grad_norm")
    if "gradient_clipping" in given or first.file.suffix in INLINE or norm is None or norm.is_literal(None, 0, 0.0):
        return
    if porting.arguments_object:
        if _reads_it_itself(porting):
            return
        site = porting.trainer
        assert site is not None
        message = f"{first.file.name} has no gradient_clipping: DeepSpeed doesn't clip then, whatever max_grad_norm is."
        fix = f"Set {porting.arguments_object}.max_grad_norm = 0 before the trainer."
        porting.find(RULE, "error", message, fix, site.line, site.column)
        return
    reason = f"no gradient_clipping in {first.file.name}, without which DeepSpeed doesn't clip"
    porting.fill({"optimizer.max_grad_norm": _literal(0.0, first)})
    porting.change_fate(".max_grad_norm", fate="dropped", target="", reason=reason)
    if norm.kind == "default":
        site = porting.trainer
        assert site is not None
        porting.find(RULE, "info", f"{reason[:1].upper()}{reason[1:]}.", "", site.line, site.column)


def _accumulation(porting: Training, given: dict[str, Setting]) -> None:
    """A config without `gradient_accumulation_steps` has its own, whatever the arguments say."""
    first, steps = next(iter(given.values())), porting.value("batch.accumulation")
    if "gradient_accumulation_steps" in given or first.file.suffix in INLINE or steps is None or steps.is_literal(1):
        return
    transformers = plain_version(porting.versions.get("transformers", "")) or None
    values = {name: setting.value for name, setting in given.items()}
    said = accumulation_left_out(values, transformers, accelerate := accelerate_beside(porting))
    if any(setting.name == CONFIG_FILE for setting in porting.settings):
        said = "which accelerate takes for 1 then, and transformers doesn't start with both"
    if not said or (porting.arguments_object and _reads_it_itself(porting) and not steps.known):
        return
    site = porting.trainer
    assert site is not None
    asked = steps.text or steps.code
    reason = f"no gradient_accumulation_steps in {first.file.name}, {said}"
    porting.change_fate(".gradient_accumulation_steps", fate="manual", target="", reason=reason)
    message = f"{reason}, but gradient_accumulation_steps is {asked} (accelerate {accelerate})."
    fix = 'Write "gradient_accumulation_steps": "auto" there for what the arguments say, or 1 in the arguments.'
    severity: Severity = "error" if steps.known else "warning"
    porting.find(RULE, severity, message[:1].upper() + message[1:], fix, site.line, site.column)


def _say_object(porting: Training, setting: Setting, keyword: str, value: str) -> None:
    """The config object decides at run time: what DeepSpeed decides has to be put into it, unless it does so itself."""
    if _reads_it_itself(porting):
        reason = "put into the config object when it is made, which reads the file"
        porting.change_fate(_source(setting), fate="exact", target="porter.runtime.arguments", reason=reason)
        return
    site = porting.trainer
    assert site is not None
    message = f"{_source(setting)}={setting.value} takes the place of {keyword}, which the config object decides."
    fix = f'Set {porting.arguments_object}.{keyword} = "{value}" before the trainer.'
    porting.find(RULE, "error", message, fix, site.line, site.column)


def _reads_it_itself(porting: Training) -> bool:
    """Whether the call that makes the kept config names a DeepSpeed config, which is taken over when it runs."""
    kept = porting.config.argument("deepspeed") if porting.config is not None else None
    return kept is not None and kept.certain and not (kept.value.known and not kept.value.literal)


def _literal(value: Any, setting: Setting) -> Value:
    return Value("literal", literal_code(value), Origin(str(setting.file), setting.line, 1, RULE))


def _source(setting: Setting) -> str:
    return f"{setting.file.name}: {setting.name}"


def _resolve(porting: Training, reason: str) -> None:
    """Take back what was said of `deepspeed=` before its file was read."""
    porting.change_fate(".deepspeed", fate="dropped", target="", reason=reason)
    porting.withdraw(".deepspeed")
