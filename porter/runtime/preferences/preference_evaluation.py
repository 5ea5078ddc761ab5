"""The evaluation of preference training: each row counts as in HF's eval_loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..batches.arrays import Batch
from ..hosts.global_arrays import placed

if TYPE_CHECKING:
    from .preference_batches import PreferenceBatches
    from .preference_rows import Documents


class PreferenceEvaluation:
    """Batches of an evaluation set, in order; made by `PreferenceBatches.evaluation`.

    HF takes the mean over rows of each row's batch loss on its process. That weight stands in `scale`, so that the
    batches can have the mesh's size. What is logged beside it is the mean over batches, however many rows these have,
    those that accelerate repeats included where `Lines.counts_repeated`.
    """

    def __init__(self, training: PreferenceBatches, prepared: Documents, batch_size: int) -> None:
        dealt = training._deal.batches(np.arange(len(prepared)), batch_size)
        if not dealt:
            raise ValueError(f"{len(prepared)} evaluation rows don't fill one batch of {batch_size}")
        self.training, self.rows, self.gpu_batches = training, len(prepared), len(dealt)
        self.batch_size = training._divisible(batch_size)
        self.length = training._fixed_length(prepared)
        pairs = self.batch_size // training.documents
        self._count = len(dealt) if training._whole else math.ceil(sum(map(len, dealt)) / pairs)
        self._weights = self._share_weights(training, dealt, batch_size)
        self._kept = None if training.lines.counts_repeated else training._deal.kept(self.rows, dealt)
        self._parts = (training, prepared, dealt)

    def __iter__(self) -> Iterator[Batch]:
        training, prepared, dealt = self._parts
        pairs = self.batch_size // training.documents
        made = training._assemble(prepared, dealt, self._weights, self._count, self.length, pairs, self._kept)
        return placed(made, training._mesh)

    def __len__(self) -> int:
        return self._count

    def _share_weights(self, training: PreferenceBatches, dealt: list[np.ndarray], batch_size: int) -> np.ndarray:
        """What each process's share of a batch counts in HF's eval_loss.

        HF repeats a share's loss once for each of its rows, and of the last batch counts as many as rows of the dataset
        are left over.
        """
        counts = []
        for batch in dealt:
            left = self.rows % batch_size if batch is dealt[-1] else 0
            for share in training._shares(batch):
                entries = len(share)
                counts.append(min(entries, left) if self.rows % batch_size and batch is dealt[-1] else entries)
                left -= counts[-1]
        return np.asarray(counts) / sum(counts)
