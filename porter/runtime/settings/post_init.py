"""What TRL and transformers do to argument values in their `__post_init__`, without torch.

Strings become dicts, shares and names are checked, and values that depend on others are filled in, so that a
ported script reads the same attributes as its source did.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from ast import literal_eval
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..facts.field_tables import Row

OF_TRL = ("SFTConfig", "DPOConfig", "ORPOConfig", "CPOConfig", "KTOConfig", "GRPOConfig", "RLOOConfig", "GKDConfig")
TRAINING = (*OF_TRL, "TrainingArguments", "Seq2SeqTrainingArguments")
# Flags that scripts read themselves, or that follow from others: not worth a word.
QUIET = {"do_train", "do_eval", "do_predict", "local_rank", "gradient_checkpointing_kwargs"}

_ENUMS = ("lr_scheduler_type", "optim", "logging_strategy", "save_strategy", "hub_strategy")


def settle(args: Any, name: str, rows: Mapping[str, Row], class_of: Callable[[str], type[Any]]) -> None:
    """Do to `args`, an object of the class `name` with the fields `rows`, what its library does after parsing.

    `class_of` gives the class of a name, for what stands in the object.
    """
    _read_dicts(args, rows)
    if name in TRAINING:
        if name in OF_TRL:
            _settle_trl(args, rows)
        if name in ("SFTConfig", "DPOConfig", "CPOConfig"):
            _settle_losses(args, name, rows)
        if name == "GRPOConfig":
            _settle_scale(args)
        if name == "GKDConfig":
            for share in ("lmbda", "beta"):
                if not 0 <= getattr(args, share) <= 1:
                    raise ValueError(f"{share}={getattr(args, share)} must be from 0 to 1")
        _settle_training(args, rows)
    elif name == "ModelConfig":
        if args.load_in_8bit and args.load_in_4bit:
            raise ValueError("You can't use 8 bit and 4 bit precision at the same time")
        targets = args.lora_target_modules
        if targets is not None and len(targets) == 1:
            args.lora_target_modules = targets[0]
    elif name == "LoraConfig":
        for field in ("target_modules", "exclude_modules"):
            if isinstance(modules := getattr(args, field, None), list):
                setattr(args, field, set(modules))  # as PEFT keeps them
    elif name == "DatasetMixtureConfig":
        made = class_of("DatasetConfig")
        args.datasets = [made(**entry) if isinstance(entry, dict) else entry for entry in args.datasets]


def to_dict(args: Any) -> dict[str, Any]:
    """All settings by name; tokens are hidden, as in `TrainingArguments.to_dict`."""
    values = dataclasses.asdict(args)
    return {key: f"<{key.upper()}>" if key.endswith("_token") and value else value for key, value in values.items()}


def save_pretrained(config: Any, save_directory: str | Path) -> None:
    """`LoraConfig.save_pretrained`: the adapter_config.json of these settings in a folder, made where it isn't there.

    One process writes it. AssertionError where a file has the folder's name, as PEFT says it.
    """
    import jax

    from ..facts.files import write_json  # which imports JAX

    folder = Path(save_directory)
    if folder.is_file():
        raise AssertionError(f"Provided path ({folder}) should be a directory, not a file")
    if jax.process_index() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        settings = to_dict(config) | {"peft_type": "LORA"}
        listed = {name: sorted(value) if isinstance(value, set) else value for name, value in settings.items()}
        write_json(folder / "adapter_config.json", listed)


def get_warmup_steps(args: Any, num_training_steps: int) -> int:
    """`TrainingArguments.get_warmup_steps`: steps from 1 on, a share rounded up below."""
    steps = args.warmup_steps
    return int(steps) if steps >= 1 else math.ceil(num_training_steps * steps)


def get_process_log_level(args: Any) -> int:
    """`TrainingArguments.get_process_log_level`: `log_level` on the first process, `log_level_replica` on the others.

    "passive" is the level that transformers has.
    """
    import jax
    from transformers.utils import logging

    asked = args.log_level if jax.process_index() == 0 else args.log_level_replica
    return int(logging.get_verbosity() if asked == "passive" else logging.log_levels[asked])


def _settle_trl(args: Any, rows: Mapping[str, Row]) -> None:
    if args.bf16 is None:
        args.bf16 = not args.fp16
    multiple = getattr(args, "pad_to_multiple_of", None)
    if isinstance(multiple, str):
        args.pad_to_multiple_of = None if multiple.lower() in ("auto", "none", "null") else int(multiple)
    if "packing_strategy" in rows and args.packing_strategy == "bfd-requeue":
        args.packing_strategy = "bfd_split"  # its older name


def _settle_losses(args: Any, name: str, rows: Mapping[str, Row]) -> None:
    if name == "SFTConfig" and "loss_type" in rows and args.loss_type in (None, "chunked_nll"):
        args.loss_type = "nll"  # the same loss, another way to compute it
    if name == "CPOConfig" and args.loss_type == "alphapo":
        args.loss_type, args.cpo_alpha = "simpo", 0.0
    if name == "DPOConfig" and isinstance(args.loss_type, str):
        args.loss_type = [args.loss_type]


def _settle_scale(args: Any) -> None:
    """`scale_rewards` was a boolean before TRL 0.22, and no field before 0.16."""
    if not hasattr(args, "scale_rewards"):
        return
    args.scale_rewards = {"True": "group", "False": "none"}.get(str(args.scale_rewards), args.scale_rewards)


def _settle_warmup(args: Any, *, older: bool) -> None:
    """A ratio as `warmup_steps` below 1; `older` than transformers 5 the steps came first, and 1 was all of them."""
    ratio = args.warmup_ratio
    if ratio is None or (older and args.warmup_steps):
        return
    if older and not 0 <= ratio <= 1:
        raise ValueError(f"warmup_ratio must lie in range [0,1]; got {ratio}")
    args.warmup_steps = math.nextafter(1.0, 0.0) if older and ratio == 1 else ratio


def _settle_training(args: Any, rows: Mapping[str, Row]) -> None:
    args.output_dir = os.path.expanduser("trainer_output" if args.output_dir is None else args.output_dir)
    evaluation = "eval_strategy" if "eval_strategy" in rows else "evaluation_strategy"
    for name in (*_ENUMS, evaluation):
        setattr(args, name, _one_of(name, getattr(args, name), rows[name]))
    _settle_warmup(args, older=rows["warmup_ratio"].default == "0.0")
    _settle_steps(args, getattr(args, evaluation))
    _check_best(args, getattr(args, evaluation))
    args.report_to = _trackers(args.report_to, rows["report_to"])
    if getattr(args, evaluation) != "no":
        args.do_eval = True
    if args.fp16 and args.bf16:
        raise ValueError("At most one of fp16 and bf16 can be True, but not both")
    if args.warmup_steps < 0:
        raise ValueError(f"warmup_steps must not be negative; got {args.warmup_steps}")
    if args.fsdp:
        args.fsdp_config = _fsdp(args.fsdp_config)
        if any(
            str(args.fsdp_config.get(key)).lower() == "true"
            for key in ("activation_checkpointing", "xla_fsdp_grad_ckpt")
        ):
            args.gradient_checkpointing = True


def _settle_steps(args: Any, evaluation: str) -> None:
    if evaluation == "steps" and not args.eval_steps:
        if args.logging_steps <= 0:
            raise ValueError("eval_strategy steps needs --eval_steps or --logging_steps above 0")
        args.eval_steps = args.logging_steps
    strategies = (("logging", args.logging_strategy), ("eval", evaluation), ("save", args.save_strategy))
    for kind, strategy in strategies:
        steps = getattr(args, f"{kind}_steps")
        if strategy != "steps" or steps is None:
            continue
        if kind == "logging" and steps == 0:
            raise ValueError("logging_strategy steps needs --logging_steps above 0")
        if steps > 1:
            if steps != int(steps):
                raise ValueError(f"--{kind}_steps must be an integer if bigger than 1: {steps}")
            setattr(args, f"{kind}_steps", int(steps))


def _check_best(args: Any, evaluation: str) -> None:
    """transformers' conditions on load_best_model_at_end, which nothing that is assigned later is held to."""
    if not args.load_best_model_at_end or args.save_strategy == "best":
        return
    if evaluation != args.save_strategy:
        raise ValueError(
            f"load_best_model_at_end needs one strategy to evaluate and save, not {evaluation} and {args.save_strategy}"
        )
    if evaluation == "steps" and not _is_multiple(args.save_steps, args.eval_steps):
        raise ValueError("load_best_model_at_end needs save_steps to be a multiple of eval_steps")


def _is_multiple(steps: float, of: float) -> bool:
    """Whether evaluations come with each checkpoint; shares of a run, below 1, are compared in millionths."""
    if steps < 1 and of < 1:
        return (steps * 1_000_000) % (of * 1_000_000) == 0 or steps % of == 0
    return steps % of == 0


def _one_of(name: str, value: Any, row: Row) -> str:
    text = getattr(value, "value", value)
    known = {*row.choices, *(literal_eval(default) for default in row.defaults.values())}
    if text not in known:
        raise ValueError(f"{name}={text!r} is not known; choose one of {', '.join(row.choices)}")
    return str(text)


def _trackers(report_to: Any, row: Row) -> list[str]:
    if report_to is None:
        return ["all"] if row.default == "None" else []  # before transformers 5 unset meant all
    names = [report_to] if isinstance(report_to, str) else list(report_to)
    return [] if names == ["none"] else names


def _read_dicts(args: Any, rows: Mapping[str, Row]) -> None:
    """JSON text of the command line to dicts, for the fields that take both."""
    for row in rows.values():
        value = getattr(args, row.name)
        if "dict" in row.type and isinstance(value, str) and value.startswith("{"):
            setattr(args, row.name, _converted(json.loads(value)))


def _converted(values: dict[str, Any]) -> dict[str, Any]:
    """Strings that spell booleans and numbers, at any depth, as transformers converts them."""

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return _converted(value)
        if not isinstance(value, str):
            return value
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value.isdigit():
            return int(value)
        return float(value) if value.replace(".", "", 1).isdigit() else value

    return {key: convert(value) for key, value in values.items()}


def _fsdp(config: Any) -> dict[str, Any]:
    """FSDP settings from a dict or a JSON file, without the `fsdp_` that older files put before each."""
    if isinstance(config, str):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    return {key.removeprefix("fsdp_"): value for key, value in (config or {}).items()}
