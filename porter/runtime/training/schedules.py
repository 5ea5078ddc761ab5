"""transformers', DeepSpeed's and torch's learning rate schedules as optax schedules, with the same value at every step.

Formulas follow `transformers/optimization.py` 5.12. Both sides evaluate a schedule at the number of updates
already made, so the first step of a warm-up has rate 0 (except `cosine_warmup_with_min_lr`, which starts one
step in). The values are computed once in double precision, as transformers does; a formula traced in float32
would lose the last digits near the end of a cosine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

_Factor = Callable[[int], float]


def hf_schedule(
    name: str,
    learning_rate: float,
    *,
    warmup_steps: float = 0,
    warmup_ratio: float | None = None,
    steps: int,
    kwargs: Mapping[str, Any] | None = None,
    shares: bool = True,
    every: int = 1,
) -> optax.Schedule:
    """The schedule that transformers builds for `lr_scheduler_type=name`, or a class of torch.optim.lr_scheduler.

    Args:
        name: `linear`, `cosine`, ... as in `TrainingArguments.lr_scheduler_type`; or the `type` of the scheduler in a
            DeepSpeed config, `WarmupLR`, `WarmupDecayLR` or `WarmupCosineLR`, with its further `params` as `kwargs`;
            or of torch `LambdaLR`, `CosineAnnealingLR`, `CosineAnnealingWarmRestarts`, `LinearLR`, `StepLR`,
            `MultiStepLR` or `ExponentialLR`, with its further arguments as `kwargs`.
        learning_rate: peak rate.
        warmup_steps: optimizer steps of warm-up; a number below 1 is a share of `steps`, rounded up.
        warmup_ratio: a share of `steps`, rounded up, 1 being all of them; before transformers 5 that wasn't
            `warmup_steps` by another name.
        steps: optimizer steps of the whole run.
        kwargs: `lr_scheduler_kwargs`.
        shares: False counts a `warmup_steps` below 1 as that part of one step, as transformers before 4.42 does.
        every: optimizer steps between two of the schedule's own: those of an epoch, where it steps once an epoch.

    Returns:
        A function from the number of updates made to the rate, float32; constant after `steps`.

    Raises:
        ValueError: for a schedule that follows the evaluation loss or is unknown, for missing settings, and for a
            ratio beyond 0 to 1.
        TypeError: for a setting that the schedule doesn't have, and for a rate that is text.
    """
    if isinstance(learning_rate, str):
        raise TypeError(
            f"learning_rate={learning_rate!r} is text, with which torch's optimizers end, too: YAML 1.1 (PyYAML) reads "
            "a number of the form 2e-4 as text and 2.0e-4 as a number"
        )
    name = str(getattr(name, "value", name))
    if name in ("reduce_lr_on_plateau", "greedy"):
        raise ValueError(f"lr_scheduler_type={name!r} follows the evaluation loss; an optax schedule can't see it")
    if name not in _SCHEDULES:
        raise ValueError(f"unknown lr_scheduler_type {name!r}; known: {', '.join(_SCHEDULES)}")
    if warmup_ratio is not None and not 0 <= warmup_ratio <= 1:
        raise ValueError(f"warmup_ratio must lie in range [0,1]; got {warmup_ratio}")
    if warmup_ratio is not None:
        warmup: float = math.ceil(steps * warmup_ratio)
    else:
        warmup = hf_warmup_steps(warmup_steps, steps) if shares else warmup_steps
    # Two schedules never see lr_scheduler_kwargs: transformers doesn't pass them on.
    settings = {} if name in ("constant", "constant_with_warmup") else dict(kwargs or {})
    factor = _SCHEDULES[name](warmup, steps, float(learning_rate), **settings)
    rates = np.array([learning_rate * factor(count) for count in range(steps + 1)], np.float32)

    def schedule(count: Any) -> Any:
        return jnp.take(jnp.asarray(rates), count // every, mode="clip")

    return schedule


def hf_warmup_steps(warmup_steps: float, steps: int) -> int:
    """`TrainingArguments.get_warmup_steps`: whole steps from 1 on, a share of `steps` (rounded up) below."""
    return int(warmup_steps) if warmup_steps >= 1 else math.ceil(steps * warmup_steps)


def _after_warmup(warmup: float, decay: _Factor) -> _Factor:
    return lambda count: count / max(1, warmup) if count < warmup else decay(count)


def _constant(warmup: float, steps: int, peak: float) -> _Factor:
    return lambda count: 1.0


def _constant_with_warmup(warmup: float, steps: int, peak: float) -> _Factor:
    return _after_warmup(warmup, lambda count: 1.0)


def _linear(warmup: float, steps: int, peak: float) -> _Factor:
    return _after_warmup(warmup, lambda count: max(0.0, (steps - count) / max(1, steps - warmup)))


def _cosine(warmup: float, steps: int, peak: float, *, num_cycles: float = 0.5) -> _Factor:
    return _cosine_to(warmup, steps, num_cycles, 0.0)


def _cosine_to(warmup: float, steps: int, cycles: float, floor: float) -> _Factor:
    def decay(count: int) -> float:
        progress = (count - warmup) / max(1, steps - warmup)
        return max(0.0, _wave(2.0 * cycles * progress) * (1 - floor) + floor)

    return _after_warmup(warmup, decay)


def _wave(half_turns: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * half_turns))


def _cosine_with_restarts(warmup: float, steps: int, peak: float, *, num_cycles: int = 1) -> _Factor:
    def decay(count: int) -> float:
        progress = (count - warmup) / max(1, steps - warmup)
        return 0.0 if progress >= 1 else max(0.0, _wave((num_cycles * progress) % 1.0))

    return _after_warmup(warmup, decay)


def _polynomial(warmup: float, steps: int, peak: float, *, lr_end: float = 1e-7, power: float = 1.0) -> _Factor:
    if peak <= lr_end:
        raise ValueError(f"lr_end ({lr_end}) must be smaller than the learning rate ({peak})")

    def decay(count: int) -> float:
        remaining = 1 - (count - warmup) / (steps - warmup) if steps > warmup else 0.0
        return float(((peak - lr_end) * remaining**power + lr_end) / peak)

    return _after_warmup(warmup, decay)


def _inverse_sqrt(warmup: float, steps: int, peak: float, *, timescale: int | None = None) -> _Factor:
    scale = timescale if timescale is not None else warmup or 10_000
    return _after_warmup(warmup, lambda count: 1.0 / math.sqrt((count + scale - warmup) / scale))


def _cosine_with_min_lr(
    warmup: float,
    steps: int,
    peak: float,
    *,
    num_cycles: float = 0.5,
    min_lr: float | None = None,
    min_lr_rate: float | None = None,
) -> _Factor:
    return _cosine_to(warmup, steps, num_cycles, _floor(peak, min_lr, min_lr_rate))


def _cosine_warmup_with_min_lr(
    warmup: float,
    steps: int,
    peak: float,
    *,
    num_cycles: float = 0.5,
    min_lr: float | None = None,
    min_lr_rate: float | None = None,
    warmup_lr_rate: float | None = None,
) -> _Factor:
    floor = _floor(peak, min_lr, min_lr_rate)

    def factor(count: int) -> float:
        if count < warmup:
            if warmup_lr_rate is None:
                return (count + 1) / max(1, warmup)
            return warmup_lr_rate + (1 - warmup_lr_rate) * count / max(1, warmup - 1)
        progress = (count - warmup + 1) / max(1, steps - warmup)
        return max(0.0, _wave(2.0 * num_cycles * progress) * (1 - floor) + floor)

    return factor


def _floor(peak: float, min_lr: float | None, min_lr_rate: float | None) -> float:
    if (min_lr is None) == (min_lr_rate is None):
        raise ValueError("lr_scheduler_kwargs must give one of min_lr and min_lr_rate")
    return min_lr_rate if min_lr is None else min_lr / peak  # type: ignore[return-value]


def _warmup_stable_decay(
    warmup: float,
    steps: int,
    peak: float,
    *,
    num_decay_steps: int,
    num_stable_steps: int | None = None,
    warmup_type: str = "linear",
    decay_type: str = "cosine",
    min_lr_ratio: float = 0.0,
    num_cycles: float = 0.5,
) -> _Factor:
    rising = {"linear": lambda p: p, "cosine": lambda p: 1 - _wave(p), "1-sqrt": lambda p: 1 - math.sqrt(1 - p)}
    falling = {
        "linear": lambda p: 1 - p,
        "cosine": lambda p: _wave(2.0 * num_cycles * p),
        "1-sqrt": lambda p: 1 - math.sqrt(p),
    }
    for setting, kind in (("warmup_type", warmup_type), ("decay_type", decay_type)):
        if kind not in rising:
            raise ValueError(f"unknown {setting} {kind!r}; known: {', '.join(rising)}")
    stable = steps - warmup - num_decay_steps if num_stable_steps is None else num_stable_steps

    def factor(count: int) -> float:
        if count < warmup:
            shape = rising[warmup_type](count / max(1, warmup))
        elif count < warmup + stable:
            return 1.0
        elif count < warmup + stable + num_decay_steps:
            shape = falling[decay_type]((count - warmup - stable) / max(1, num_decay_steps))
        else:
            return min_lr_ratio
        return max(0.0, shape * (1 - min_lr_ratio) + min_lr_ratio)

    return factor


def _deepspeed_warmup(
    warmup: float, steps: int, peak: float, *, decays: bool, warmup_min_lr: float = 0.0, warmup_type: str = "log"
) -> _Factor:
    """DeepSpeed's WarmupLR and WarmupDecayLR (`deepspeed/runtime/lr_schedules.py`), which lag a step behind."""
    warmup, floor = max(2, warmup), warmup_min_lr / peak

    def factor(count: int) -> float:
        last = max(0, count - 1)
        if last < warmup:
            share = _deepspeed_rise(last, warmup, warmup_type)
        else:
            share = max(0.0, (steps - last) / max(1, steps - warmup)) if decays else 1.0
        return floor + (1 - floor) * share

    return factor


def _deepspeed_cosine(
    warmup: float,
    steps: int,
    peak: float,
    *,
    warmup_min_ratio: float = 0.0,
    cos_min_ratio: float = 1e-4,
    warmup_type: str = "log",
) -> _Factor:
    """DeepSpeed's WarmupCosineLR; its very first update has rate 0."""
    warmup = max(2, warmup)

    def factor(count: int) -> float:
        last = count - 1
        if last < 0:
            return 0.0
        if last < warmup:
            return warmup_min_ratio + (1 - warmup_min_ratio) * _deepspeed_rise(last, warmup, warmup_type)
        progress = min(1.0, (last - warmup + 1) / max(1, steps - warmup))
        return max(0.0, cos_min_ratio + (1 - cos_min_ratio) * _wave(progress))

    return factor


def _deepspeed_rise(last: int, warmup: float, warmup_type: str) -> float:
    return last / warmup if warmup_type == "linear" else math.log(last + 1) / math.log(warmup)


def _by_function(warmup: float, steps: int, peak: float, *, lr_lambda: _Factor) -> _Factor:
    if not callable(lr_lambda):
        raise TypeError("LambdaLR: lr_lambda is a function of the step; a list of them is for groups of parameters")
    return lr_lambda


def _cosine_annealing(warmup: float, steps: int, peak: float, *, T_max: int, eta_min: float = 0.0) -> _Factor:
    return lambda count: _between(peak, eta_min, _wave(count / T_max))


def _warm_restarts(
    warmup: float, steps: int, peak: float, *, T_0: int, T_mult: int = 1, eta_min: float = 0.0
) -> _Factor:
    def factor(count: int) -> float:
        length = T_0
        while count >= length:
            count, length = count - length, length * T_mult
        return _between(peak, eta_min, _wave(count / length))

    return factor


def _between(peak: float, floor: float, share: float) -> float:
    return (floor + (peak - floor) * share) / peak


def _straight(
    warmup: float,
    steps: int,
    peak: float,
    *,
    start_factor: float = 1 / 3,
    end_factor: float = 1.0,
    total_iters: int = 5,
) -> _Factor:
    return lambda count: start_factor + (end_factor - start_factor) * min(count, total_iters) / total_iters


def _in_stairs(warmup: float, steps: int, peak: float, *, step_size: int, gamma: float = 0.1) -> _Factor:
    return lambda count: float(gamma ** (count // step_size))


def _at_milestones(warmup: float, steps: int, peak: float, *, milestones: Sequence[int], gamma: float = 0.1) -> _Factor:
    return lambda count: float(gamma ** sum(milestone <= count for milestone in milestones))


def _exponential(warmup: float, steps: int, peak: float, *, gamma: float) -> _Factor:
    return lambda count: float(gamma**count)


_SCHEDULES: dict[str, Callable[..., _Factor]] = {
    "linear": _linear,
    "cosine": _cosine,
    "cosine_with_restarts": _cosine_with_restarts,
    "polynomial": _polynomial,
    "constant": _constant,
    "constant_with_warmup": _constant_with_warmup,
    "inverse_sqrt": _inverse_sqrt,
    "cosine_with_min_lr": _cosine_with_min_lr,
    "cosine_warmup_with_min_lr": _cosine_warmup_with_min_lr,
    "warmup_stable_decay": _warmup_stable_decay,
    "WarmupLR": partial(_deepspeed_warmup, decays=False),
    "WarmupDecayLR": partial(_deepspeed_warmup, decays=True),
    "WarmupCosineLR": _deepspeed_cosine,
    "LambdaLR": _by_function,
    "CosineAnnealingLR": _cosine_annealing,
    "CosineAnnealingWarmRestarts": _warm_restarts,
    "LinearLR": _straight,
    "StepLR": _in_stairs,
    "MultiStepLR": _at_milestones,
    "ExponentialLR": _exponential,
}
