"""One completion that is trained on, and what is logged of all that are sampled together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    since: Callable[..., bool] = lambda *version: True,
) -> dict[str, float]:
    """TRL's metrics of a generation batch: `rewards` (completions, functions), and which completions were cut off.

    `whole_spread`: `reward_std` is of all completions, not the mean of those of the groups. `since`: whether the
    source's is a release of TRL or a later one; before 0.17 few were logged, under other names.
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
        }
        if since(0, 18):
            said["frac_reward_zero_std"] = float(np.mean(np.isclose(spread, 0)))
        for name, column in zip(names, rewards.T, strict=True):
            mean = float(np.nanmean(column)) if not np.isnan(column).all() else math.nan
            if since(0, 17):
                said[f"rewards/{name}/mean"], said[f"rewards/{name}/std"] = mean, _deviation(column)
            else:
                said[f"rewards/{name}"] = mean
    if not since(0, 17):
        return said | {"completion_length": sum(lengths) / len(lengths)}
    ended = [length for length, short in zip(lengths, cut, strict=True) if not short] or [0]
    for kind, of_kind in (("length", lengths), ("terminated_length", ended)):
        said[f"completions/mean_{kind}"] = sum(of_kind) / len(of_kind)
        said[f"completions/min_{kind}"], said[f"completions/max_{kind}"] = float(min(of_kind)), float(max(of_kind))
    return said | {"completions/clipped_ratio": sum(cut) / len(cut)}


def _deviation(values: np.ndarray) -> float:
    """The standard deviation of a sample, as TRL's nanstd: NaN of fewer than two values."""
    return float(np.nanstd(values, ddof=1)) if (~np.isnan(values)).sum() > 1 else math.nan
