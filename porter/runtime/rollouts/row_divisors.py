"""What the tokens of each row of a step are divided by in TRL's losses, and in Unsloth's parts of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..facts.releases.unsloth_grpo import parts_of
from .rollout import Rollout


def row_divisors(
    parts: Sequence[Sequence[Rollout]],
    divides_by: str,
    *,
    length: int,
    steps: int,
    dealt: int,
    processes: int,
    loss_parts: int | None,
) -> np.ndarray:
    """What each row's tokens are divided by in the loss of a step, (rows,), which is made of the micro-steps `parts`.

    `divides_by`: of `PolicyLoss`. `length`: the longest completion that may be. `steps`: what the Trainer divides a
    micro-step's loss by. `dealt`: micro-steps of a generation batch. `loss_parts`: parts of a micro-step on each of
    `processes` whose losses are taken apart, see `parts_of`.
    """
    rows = list(itertools.chain(*parts))
    count = np.concatenate([np.full(len(part), len(part) * steps) for part in parts])
    if divides_by == "row":
        return np.array([max(rollout.trained, 1) for rollout in rows], np.float32) * count
    if divides_by == "length":
        return count * length
    if divides_by == "rows":
        return count
    if divides_by == "batch":
        share = len(parts) / dealt
        tokens = np.array([max(rollout.tokens, 1) * share for rollout in rows], np.float32)
        tokens *= np.concatenate([np.full(len(part), _parts(part, processes, loss_parts)) for part in parts])
        return tokens
    return np.concatenate([_tokens(part, processes, loss_parts) for part in parts]) * steps * processes


def _tokens(part: Sequence[Rollout], processes: int, loss_parts: int | None) -> np.ndarray:
    """For each row the trained tokens of its micro-batch on its process, or of its part of that times the parts."""
    parts = _parts(part, processes, loss_parts)
    trained = np.array([rollout.trained for rollout in part], np.float32).reshape(processes * parts, -1)
    return np.repeat(np.maximum(trained.sum(axis=1), 1), trained.shape[1]) * parts


def _parts(part: Sequence[Rollout], processes: int, loss_parts: int | None) -> int:
    return parts_of(len(part) // processes, loss_parts)
