"""Reads what a trace needs out of torch's objects: batches, losses, tensors, schedules and settings."""

from __future__ import annotations

import itertools
import re
from types import FrameType
from typing import Any

import numpy as np

from ..comparing.trace import MOST_RATES, Row, needed, rows_of_batch

MOST_MARKS = 50_000
OWN_KEYWORD = "_porter_disable_dropout"
DROPOUT_STAYS = (
    "the trainer's dropout is taken to be on, as in the script's release, which has no disable_dropout; the release "
    "that the source ran on switches it off"
)
OPTIMIZER_ARGUMENTS = ("momentum", "dampening", "nesterov", "alpha", "centered", "lr_decay")


def documents(batch: dict[str, np.ndarray]) -> list[tuple[Row, tuple[int, slice | np.ndarray]]]:
    """Documents of one collated batch, each with its place (row, positions) in the (B, T) arrays.

    With `position_ids` and no attention mask the batch is TRL's padding-free one: one row, a document wherever the
    positions start again from 0.
    """
    tokens, labels = batch["input_ids"], batch["labels"]
    positions, mask = batch.get("position_ids"), batch.get("attention_mask")
    found: list[tuple[Row, tuple[int, slice | np.ndarray]]] = []
    if positions is not None and mask is None:
        for index in range(tokens.shape[0]):
            starts = [*np.flatnonzero(positions[index] == 0), tokens.shape[1]]
            for start, end in itertools.pairwise(starts):
                part = slice(int(start), int(end))
                found.append((Row.of(tokens[index, part], labels[index, part]), (index, part)))
        return found
    keep = needed(np.ones(tokens.shape, bool) if mask is None else mask, labels)
    for index in range(tokens.shape[0]):
        rows = rows_of_batch(tokens[index : index + 1], labels[index : index + 1], keep=keep[index : index + 1])
        found += [(row, (index, np.flatnonzero(keep[index]))) for row in rows]
    return found


def marks(dataset: Any) -> list[int]:
    """The mark of every document of a prepared dataset, in its order; none for a streamed or unprepared one."""
    if "input_ids" not in (getattr(dataset, "column_names", None) or ()):
        return []
    if not hasattr(dataset, "__len__") or len(dataset) > MOST_MARKS:
        return []
    packed = "seq_lengths" in dataset.column_names
    found = []
    for index in range(len(dataset)):
        row = dataset[index]
        tokens = np.array(row["input_ids"], np.int32)
        ends: Any = np.cumsum(row["seq_lengths"])[:-1] if packed else []
        found += [Row(part, part).mark for part in np.split(tokens, ends)]
    return found


def token_losses(outputs: Any, labels: Any) -> np.ndarray | None:
    """Loss of each predicted token, (B, T), 0 where none is: position t holds the loss of predicting token t."""
    log_probs = getattr(outputs, "log_probs", None)
    if log_probs is not None:
        nll = -log_probs.detach().float().cpu().numpy()
    elif getattr(outputs, "logits", None) is not None and labels is not None:
        import torch

        logits = outputs.logits.detach().float()[:, :-1]
        wanted = labels[:, 1:]
        flat = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1), ignore_index=-100, reduction="none"
        )
        nll = flat.reshape(wanted.shape).cpu().numpy()
    else:
        return None
    if nll.ndim != 2:  # rows within rows, as `return_tensors="pt"` makes of one text, which some models take
        return None
    if labels is not None and nll.shape[1] == labels.shape[1]:
        return nll
    return np.concatenate([np.zeros((nll.shape[0], 1), nll.dtype), nll], axis=1)


def trained_tensors(model: Any) -> dict[str, np.ndarray]:
    """Copies of the trainable tensors in float32, under the names that PEFT saves them by."""
    return {
        _name(name): parameter.detach().float().cpu().numpy().copy()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def typical_gradients(model: Any, optimizer: Any) -> dict[str, np.ndarray]:
    """The root of Adam's corrected second moment of each trained element, by name; nothing of other optimizers.

    A clipped run's are those after clipping: what the update was made of.
    """
    inner = getattr(optimizer, "optimizer", optimizer)
    found = {}
    for group in getattr(inner, "param_groups", ()):
        beta = (group.get("betas") or (0.0, 0.0))[1]
        for parameter in group["params"]:
            state = inner.state.get(parameter, {})
            second, step = state.get("exp_avg_sq"), state.get("step")
            if second is not None and step is not None and second.shape == parameter.shape and float(step) > 0:
                found[parameter] = (second.detach().float() / (1 - beta ** float(step))).sqrt().cpu().numpy()
    named = ((_name(name), parameter) for name, parameter in model.named_parameters())
    return {name: found[parameter] for name, parameter in named if parameter in found}


def whole_schedule(schedule: Any, steps: int) -> list[float]:
    """The learning rate of every step of the horizon; empty for schedules that depend on the metrics.

    Of a horizon that stands for "until it is stopped" the first `MOST_RATES`.
    """
    inner = getattr(schedule, "scheduler", schedule)
    factors = getattr(inner, "lr_lambdas", None)
    if not factors:
        return []
    base = inner.base_lrs[0]
    return [float(base * factors[0](step)) for step in range(min(steps, MOST_RATES))]


def describe(args: Any, state: Any, model: Any, optimizer: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    """The run's settings as the libraries understood them, as plain values under the names of both sides."""
    inner = getattr(optimizer, "optimizer", optimizer)
    group = max(inner.param_groups, key=lambda each: each.get("weight_decay", 0.0))
    betas = group.get("betas", (None, None))
    scalings = {
        round(float(value), 9)
        for module in model.modules()
        if hasattr(module, "lora_A") and isinstance(module.scaling, dict)
        for value in module.scaling.values()
    }
    groups = [(group, [p for p in group["params"] if p.requires_grad]) for group in inner.param_groups]
    sizes = [(sum(p.numel() for p in params), bool(group.get("weight_decay"))) for group, params in groups]
    epsilon = group.get("eps")
    norm = args.max_grad_norm
    return {
        "optimizer": re.sub(r"^paged|(?:8|32)bit$", "", type(inner).__name__.lower()),  # bitsandbytes' are the same
        "optimizer_arguments": {key: float(group[key]) for key in OPTIMIZER_ARGUMENTS if key in group},
        "beta1": betas[0],
        "beta2": betas[1],
        "epsilon": epsilon[0] if isinstance(epsilon, tuple | list) else epsilon,
        "weight_decay": group.get("weight_decay", 0.0),
        "decayed": [sum(size for size, decays in sizes if decays), sum(size for size, _ in sizes)],
        "max_grad_norm": norm if norm and norm > 0 else None,
        "steps": int(state.max_steps),
        "seed": args.seed,
        "accumulation": args.gradient_accumulation_steps,
        "processes": args.world_size,
        "average_tokens": bool(getattr(args, "average_tokens_across_devices", True)),
        "lora_scaling": sorted(scalings),
        "lora_dropout": [0.0] if without_dropout(args) and dropouts(model) else dropouts(model),
        "tensors": {name: list(shape) for name, shape in shapes.items()},
    }


def without_dropout(args: Any) -> bool:
    """Whether the trainer switches dropout off: a setting of its arguments, before TRL 0.9 its own keyword."""
    return bool(getattr(args, "disable_dropout", getattr(args, OWN_KEYWORD, False)))


def keep_own_keyword(args: Any, frame: FrameType | None, *, leaves_on: bool = False) -> bool:
    """Keep on `args` what the trainers' `__init__` in `frame` and its callers were told of dropout, False of a script
    that was for trainers without this keyword (`leaves_on`); whether one of them switches it off all the same."""
    found = False
    while frame is not None and frame.f_code.co_name in ("__init__", "patched_init"):
        if "disable_dropout" in frame.f_locals and not hasattr(args, "disable_dropout"):
            found = leaves_on and bool(frame.f_locals["disable_dropout"])
            setattr(args, OWN_KEYWORD, bool(frame.f_locals["disable_dropout"]) and not leaves_on)
        frame = frame.f_back
    return found


def dropouts(model: Any) -> list[float]:
    """LoRA dropouts as the source asked for them, of the adapters that are there; none without any.

    A model into which an adapter was merged keeps its configuration."""
    if not any("lora_" in name for name, _ in model.named_parameters()):
        return []
    configs = getattr(getattr(model, "module", model), "peft_config", {})
    found = (getattr(config, "_porter_dropout", getattr(config, "lora_dropout", 0.0)) for config in configs.values())
    return sorted({float(dropout or 0.0) for dropout in found})


def _name(name: str) -> str:
    """A parameter's name as PEFT saves it."""
    return name.removeprefix("module.").replace(".default.", ".")
