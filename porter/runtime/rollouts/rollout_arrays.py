"""How prompts and their completions lie in the arrays of a micro-batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..batches.arrays import Batch
from .rollout import Rollout


def assembled(
    rollouts: Sequence[Rollout],
    scale: np.ndarray,
    *,
    shape: tuple[int, int],
    completion_length: int,
    padding: int,
    logps: Collection[str],
) -> Batch:
    """Rows of `shape` as `PolicyLoss` takes them, prompts up to a common column and completions from it on; what is
    missing to a full batch trains nothing. `logps`: which log-probabilities of completions it has."""
    rows, length = shape
    begin = length - completion_length
    batch: Batch = {
        "input_tokens": np.full(shape, padding, np.int32),
        "positions": np.zeros(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
        "completion_mask": np.zeros((rows, completion_length), np.int32),
        "advantages": np.zeros(rows, np.float32),
        "scale": np.zeros(rows, np.float32),
    }
    batch |= {name: np.zeros((rows, completion_length), np.float32) for name in logps}
    for place, (rollout, weight) in enumerate(zip(rollouts, scale, strict=True)):
        first, end = begin - len(rollout.prompt), begin + len(rollout.completion)
        batch["input_tokens"][place, first:end] = [*rollout.prompt, *rollout.completion]
        batch["segment_ids"][place, first:end] = 1
        batch["positions"][place, first:] = np.arange(length - first)
        batch["completion_mask"][place, : rollout.trained] = 1
        batch["advantages"][place], batch["scale"][place] = rollout.advantage, weight
        for name in logps:
            if (known := getattr(rollout, name)) is not None:
                batch[name][place] = known
    return batch
