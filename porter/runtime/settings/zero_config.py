"""A DeepSpeed file that is named when the script runs, `--deepspeed zero3.json`: what it asks of the training.

As transformers fills it in and checks it (`HfTrainerDeepSpeedConfig`): a value is "auto", or equals the arguments' own.
Where weights and states lie changes no result; an optimizer, a schedule and the clipping of gradients do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..facts.field_tables import FieldTable, Row, find_table, version_key

TABLE = "accelerate.deepspeed_config"
# DeepSpeed's setting → the keyword that it has to equal.
EQUAL = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
}
ADAMW = ("AdamW", "Adam")
SCHEDULES = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR")
# Settings of a schedule that `rt.hf_schedule` takes, with DeepSpeed's defaults.
SHAPES = {"warmup_min_lr": 0.0, "warmup_type": "log", "warmup_min_ratio": 0.0, "cos_min_ratio": 0.0001}
# Parts whose settings are told one by one; of other parts the whole has one fate.
PARTS = ("zero_optimization", "bf16", "fp16", "optimizer", "scheduler", "offload_optimizer", "offload_param", "params")


# What DeepSpeed reads beside the settings that have rows; it ignores every other key at the top.
OTHERS = frozenset(
    """
    autotuning bfloat16 comet datastates dataloader_drop_last eigenvalue expert_parallel gradient_allreduce_op
    graph_harvesting hybrid_engine log_level managed_gradient_accumulation optimizer progressive_layer_drop
    quantize_training scheduler seq_parallel_comm_data_type torch_autocast use_data_before_expert_parallelism
    vocabulary_size weight_quantization
    """.split()
)
IGNORED = "DeepSpeed ignores it, as it does every key that it doesn't know"


def take_deepspeed(args: Any) -> None:
    """Put into `args` what their `deepspeed` sets: an optimizer, a schedule, no clipping where the file says nothing.

    ValueError for a file that can't be read, a value that contradicts the arguments (transformers doesn't start with
    both either), and what has no counterpart, all by name.
    """
    config = _read(args.deepspeed)
    for name in config:
        if is_ignored(find_table(TABLE), name):
            print(f"deepspeed={_shown(args.deepspeed)}: {name}: {IGNORED}", file=sys.stderr)
    given = {".".join(names): value for names, value in leaves(config)}
    wrong = [*refused_settings(given), *contradictions(args, given)]
    if args.gradient_accumulation_steps != 1 and (said := accumulation_left_out(given, args.of_transformers)):
        wrong.append(f"gradient_accumulation_steps isn't set, {said}; write it there")
    if given.get("optimizer.type") in ADAMW and args.weight_decay:
        wrong.append("optimizer: DeepSpeed's decays norms and biases, too; leave it out, or set weight_decay=0")
    if wrong:
        raise ValueError(f"deepspeed={_shown(args.deepspeed)} can't be ported with\n  " + "\n  ".join(wrong))
    if "gradient_clipping" not in given:
        args.max_grad_norm = 0.0  # DeepSpeed clips, and does so only when asked to
    if given.get("optimizer.type") in ADAMW:
        args.optim = "adamw_torch"
    if (kind := given.get("scheduler.type")) in SCHEDULES:
        shape = {name: given.get(f"scheduler.params.{name}", default) for name, default in SHAPES.items()}
        args.lr_scheduler_type = kind
        args.lr_scheduler_kwargs = {
            name: value for name, value in shape.items() if value not in ("auto", SHAPES[name])
        } or None
    half = args.bf16 or args.fp16
    said = "; DeepSpeed holds trained weights in float32 beside those: load them so (dtype=)" if half else ""
    print(f"deepspeed={_shown(args.deepspeed)}: the mesh spreads weights and states{said}", file=sys.stderr)


def leaves(data: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The settings of a DeepSpeed config by the parts of their name, `("zero_optimization", "stage")`."""
    for key, value in data.items():
        if isinstance(value, dict) and key in PARTS:
            yield from leaves(value, (*above, str(key)))
        else:
            yield (*above, str(key)), value


def row_of(table: FieldTable | None, name: str) -> Row | None:
    """The row of a setting; of `zero_optimization.x` without one, that of `zero_optimization`."""
    whole = name
    while table is not None and name:
        if (row := table.row(name)) is not None:
            return row if name == whole else replace(row, type="Any")
        name = name.rpartition(".")[0]
    return None


def is_ignored(table: FieldTable | None, name: str) -> bool:
    """Whether a key at the top of a config is none of DeepSpeed's."""
    known = OTHERS.union(each.partition(".")[0] for each in table.rows()) if table is not None else {name}
    return name.partition(".")[0] not in known


def accumulation_left_out(given: Mapping[str, Any], transformers: str | None, accelerate: str | None = None) -> str:
    """What a config without `gradient_accumulation_steps` does in the place of the arguments' own; "" for the same.

    `given`: its settings by dotted name. `accelerate`: that of transformers' day when None; None for today's
    transformers. accelerate writes a 1 into the config. Until 0.22 it put the Trainer's number over it; from 1.8 on it
    tells DeepSpeed when to step, as transformers from 4.46 on asks for. But beside offloaded states of stages 1 and 2
    DeepSpeed adds up gradients by the config's own number (`copy_grads_in_partition` of `stage_1_and_2.py`).
    """
    if "gradient_accumulation_steps" in given:
        return ""
    day = "1.8" if transformers is None or version_key(transformers) >= (4, 53) else "0.23"
    if accelerate is None and transformers is not None and version_key(transformers) < (4, 34):
        day = "0.22"
    release = version_key(accelerate or day)
    if release < (0, 23):
        return ""
    if release < (1, 8) or (transformers is not None and version_key(transformers) < (4, 46)):
        return "which accelerate takes for 1: each micro-batch is a step of its own"
    device = given.get("zero_optimization.offload_optimizer.device", "none")
    offloaded = device not in (None, "none") or given.get("zero_optimization.cpu_offload") is True
    if offloaded and given.get("zero_optimization.stage") in (1, 2):
        return "which accelerate takes for 1: beside offloaded states a step then has its last micro-batch alone"
    return ""


def same(one: Any, other: Any) -> bool:
    """Whether two settings mean the same: `1` and `1.0`, `"5e-5"` and `5e-5`, number by number in a list."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return bool(one == other)


def refused_settings(given: Mapping[str, Any]) -> Iterator[str]:
    """The settings of a config, by dotted name, that no port takes, each with the reason."""
    table = find_table(TABLE)
    for name, value in given.items():
        if is_ignored(table, name):
            continue
        row = row_of(table, name)
        fate, reason = row.verdict(value) if row is not None else ("manual", "no setting of DeepSpeed's that is known")
        if fate == "manual" and value != "auto":
            yield f"{name}={value}: {reason}"


def _read(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    try:
        found = json.loads(Path(str(given)).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"deepspeed={_shown(given)} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"deepspeed={_shown(given)} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"deepspeed={_shown(given)} holds no settings")
    return found


def _shown(given: Any) -> str:
    return "{...}" if isinstance(given, dict) else str(given)


def contradictions(args: Any, given: Mapping[str, Any]) -> Iterator[str]:
    """What of a config, `given` by dotted name, contradicts the arguments: transformers doesn't start with both."""
    wanted = {name: (keyword, getattr(args, keyword)) for name, keyword in EQUAL.items()}
    wanted["optimizer.params.betas"] = ("adam_beta1 and adam_beta2", [args.adam_beta1, args.adam_beta2])
    if args.warmup_steps == 0 or args.warmup_steps >= 1:
        wanted["scheduler.params.warmup_num_steps"] = ("warmup_steps", args.warmup_steps)
    for name, (keyword, value) in wanted.items():
        if given.get(name, "auto") != "auto" and not same(given[name], value):
            yield f"{name}={given[name]}: {keyword} is {value}, and transformers doesn't start with both"
    micro, total = args.per_device_train_batch_size * args.gradient_accumulation_steps, given.get("train_batch_size")
    if isinstance(total, int) and total % micro:
        yield f"train_batch_size={total}: no number of processes makes it of {micro} rows on each"
