"""The batches of an evaluation set, weighted so that their mean is transformers' `eval_loss`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .rows import Rows

if TYPE_CHECKING:
    from .arrays import Batch
    from .batches import SFTBatches


class EvaluationBatches:
    """Batches of an evaluation set, in order; made by `SFTBatches.evaluation`.

    HF takes the mean over rows of each row's batch loss on its process, itself a mean over trained tokens. That weight
    stands in `scale`, so that the batches can have the mesh's size.
    """

    def __init__(
        self, training: SFTBatches, prepared: Rows, batch_size: int, micro_batch: int, packing: str | None
    ) -> None:
        dealt = training._deal.batches(np.arange(len(prepared)), batch_size)
        if not dealt:
            raise ValueError(f"{len(prepared)} evaluation rows don't fill one batch of {batch_size}")
        self.rows = len(prepared)
        self.batch_size = micro_batch
        self.length = training._fixed_length(prepared)
        self._picked = np.concatenate(dealt)
        self._count = math.ceil(len(self._picked) / self.batch_size)
        per_process = batch_size // training._deal.processes
        self._scale = self._count * _row_weights(dealt, prepared.trained, per_process, self.rows)
        self._parts = (training, prepared, packing)

    def __iter__(self) -> Iterator[Batch]:
        training, prepared, packing = self._parts
        yield from training._assemble(prepared, self._picked, self._scale, self.batch_size, self.length, packing)

    def __len__(self) -> int:
        return self._count


def _row_weights(dealt: list[np.ndarray], trained: np.ndarray, per_process: int, rows: int) -> np.ndarray:
    """What a token of each row counts in HF's eval_loss. Rows that accelerate repeats weigh in their batch only."""
    weights = []
    seen = 0
    for batch in dealt:
        for start in range(0, len(batch), per_process):
            share = batch[start : start + per_process]
            new = max(0, min(len(share), rows - seen))
            seen += len(share)
            weights.append(np.full(len(share), new / max(1, trained[share].sum())))
    return np.concatenate(weights) / min(rows, seen)
