"""How far float32 alone carries two equal trainings apart, from what one of them shows.

Two sources of noise matter for the weights, and both are measured against how far training moved them.

*Rounding of the weights.* Each step rounds every weight to float32 once or twice, torch and Optax at other places
(torch multiplies by 1 - rate x decay first, Optax adds both at once). A warm-up moves a weight of 0.1 by less than ten
of its last digits. Qwen3, LoRA, a warm-up of 5,560 steps, four steps: changed by 1.7e-4, apart by 1.4e-3 of that,
the same on meshes of 1 and 8 devices; `rounding` says 2.6e-3. The same script with a warm-up of 5: apart by 9.9e-6,
`rounding` 2.2e-6.

*Adam's division.* A gradient is known to about `GRADIENT_NOISE` of its tensor's size (sums in another order);
Adam divides it by its own size, so that an element whose gradient is near that noise, or near epsilon, moves by a rate
in any direction. In that script: measured 9.9e-6, `division` 2.6e-6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .trace import Trace

# Of a gradient's element, as a share of its row's and its column's root mean square.
GRADIENT_NOISE = 1e-6
ROUNDING = 0.5  # standard deviation of the two sides' distance after a step, in units of the last place
# What is allowed of each: twice the largest that was measured.
ROUNDINGS, DIVISIONS = 1.5, 8.0
FEW = 1 / 12  # of an adapter's elements: more than a row of rank 16
MOST = 2e-2  # of the change: past it a difference says something, whatever Adam may make of float32
# The same of rounding alone, which is known to its last digit: a warm-up of 4,000 steps to 1.5e-5 moves weights of 0.1
# by three of their last places in four steps, and rounds them three times (measured 3.9e-2).
MOST_ROUNDED = 0.2


@dataclass(frozen=True)
class Noise:
    """Expected L2 distance of two equal runs, as a share of the change that training made, by its two causes."""

    rounding: float = 0.0
    division: float = 0.0

    @property
    def allowed(self) -> float:
        """What a comparison of weights may add to its tolerance."""
        rounded = min(ROUNDINGS * self.rounding, MOST_ROUNDED)
        return max(rounded, min(rounded + DIVISIONS * self.division, MOST))


def weight_noise(source: Trace) -> Noise:
    """The noise of a source's final weights. Without a change there is none; without Adam only rounding."""
    names = sorted(set(source.initial) & set(source.final))
    moved = sum(_squares(source.final[name] - source.initial[name]) for name in names)
    if not moved > 0:
        return Noise()
    used = [step.learning_rate for step in source.steps]
    planned = [*source.schedule[: len(used)], *([None] * (len(used) - len(source.schedule)))]
    known = [a if a is not None else b for a, b in zip(used, planned, strict=True)]
    steps = sum(rate != 0 for rate in known)  # one that an old release doesn't tell counts, too
    rates = sum(abs(rate or 0.0) for rate in known)
    epsilon = source.config.get("epsilon") or 1e-8
    rounding = division = 0.0
    for name in names:
        rounding += steps * _squares(ROUNDING * np.spacing(np.abs(source.final[name]).astype(np.float32)))
        if name in source.gradients:
            division += _squares(rates * _signs(source.gradients[name].astype(np.float64), float(epsilon)))
    return Noise(math.sqrt(rounding / moved), math.sqrt(division / moved))


def without_the_furthest(source: Trace, port: Trace, names: Sequence[str]) -> float:
    """Squared L2 distance of the tensors `names`, of an adapter's without the share `FEW` that is furthest apart.

    An element of lora_B whose gradient is all but zero goes its own way by up to a rate, and carries the row of lora_A
    that it belongs to along from the next step on: QLoRA of nf4 in four steps, 160 of 52,000 elements apart by more
    than 1e-7, all others by 2e-8. A mistake moves most elements of a tensor.
    """
    total = 0.0
    for name in names:
        apart = np.square(source.final[name].astype(np.float64) - port.final[name]).ravel()
        kept = len(apart) - int(FEW * len(apart)) if "lora_" in name else len(apart)
        total += float(np.sum(np.partition(apart, kept - 1)[:kept]))
    return total


def _signs(sizes: np.ndarray, epsilon: float) -> np.ndarray:
    """By how many rates each element may move apart in one step: its gradient's noise over its size, at most 2.

    An element whose gradient is exactly zero (a row of the embedding that no batch holds) is so on both sides.
    """
    noise = np.full_like(sizes, np.sqrt(np.mean(sizes**2)))
    if sizes.ndim == 2 and noise.any():
        rows, columns = np.sqrt(np.mean(sizes**2, axis=1)), np.sqrt(np.mean(sizes**2, axis=0))
        noise = np.outer(rows, columns) / noise
    return np.where(sizes > 0, np.minimum(GRADIENT_NOISE * noise / (sizes + epsilon), 2.0), 0.0)


def _squares(values: np.ndarray) -> float:
    return float(np.sum(np.square(values, dtype=np.float64)))
