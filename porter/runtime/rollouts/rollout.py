"""One completion that is trained on, and what is logged of all that are sampled together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .rewards import weighted


@dataclass
class Rollout:
    """One completion: token ids, how many of them are trained, and what they are worth."""

    prompt: list[int]
    completion: list[int]
    trained: int
    tokens: int = 0  # trained, of the whole generation batch
    advantage: float = 0.0
    old_logps: np.ndarray | None = None
    reference_logps: np.ndarray | None = None


def said_of(
    rewards: np.ndarray,
    completions: Sequence[Sequence[int]],
    cut: Sequence[bool],
    *,
    names: Sequence[str],
    weights: np.ndarray,
    generations: int,
    whole_spread: bool = True,
) -> dict[str, float]:
    """TRL's metrics of a generation batch: `rewards` (completions, functions), and which completions were cut off.

    `whole_spread`: `reward_std` is of all completions, not the mean of those of the groups.
    """
    total = weighted(rewards, weights)
    lengths = [len(ids) for ids in completions]
    with np.errstate(invalid="ignore"):
        groups = total.reshape(-1, generations)
        spread = np.nanstd(groups, axis=1)
        of_groups = float(np.mean(np.nanstd(groups, axis=1, ddof=1))) if generations > 1 else math.nan
        said = {
            "reward": float(np.nanmean(total)) if not np.isnan(total).all() else math.nan,
            "reward_std": _deviation(total) if whole_spread else of_groups,
            "frac_reward_zero_std": float(np.mean(np.isclose(spread, 0))),
        }
        for name, column in zip(names, rewards.T, strict=True):
            said[f"rewards/{name}/mean"] = float(np.nanmean(column)) if not np.isnan(column).all() else math.nan
            said[f"rewards/{name}/std"] = _deviation(column)
    said["completions/mean_length"] = sum(lengths) / len(lengths)
    said["completions/clipped_ratio"] = sum(cut) / len(cut)
    return said


def _deviation(values: np.ndarray) -> float:
    """The standard deviation of a sample, as TRL's nanstd: NaN of fewer than two values."""
    return float(np.nanstd(values, ddof=1)) if (~np.isnan(values)).sum() > 1 else math.nan
