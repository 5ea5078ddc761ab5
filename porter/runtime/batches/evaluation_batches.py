"""The batches of an evaluation set, weighted so that their mean is transformers' `eval_loss`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..hosts.global_arrays import placed
from ..rows.rows import Rows
from ..rows.tokenization import IGNORED
from .predictions import Share, WholeBatches

if TYPE_CHECKING:
    from .arrays import Batch
    from .sft_batches import SFTBatches


class EvaluationBatches:
    """Batches of an evaluation set, in the GPU run's order; made by `SFTBatches.evaluation`.

    HF takes the mean over rows of each row's batch loss on its process, itself a mean over trained tokens (with
    transformers 4.57 to 5.9 each row's first token counted among them, though nothing predicts it). That weight stands
    in `scale`, so that the batches can have the mesh's size.
    """

    def __init__(
        self, training: SFTBatches, prepared: Rows, batch_size: int, micro_batch: int, packing: str | None
    ) -> None:
        dealt = training._deal.batches(training._steps.evaluated(prepared.lengths, batch_size), batch_size)
        if not dealt:
            raise ValueError(f"{len(prepared)} evaluation rows don't fill one batch of {batch_size}")
        self.training, self.rows, self.gpu_batches = training, len(prepared), len(dealt)
        self.batch_size = micro_batch
        self.length = training._fixed_length(prepared)
        self._picked = np.concatenate(dealt)
        self._count = math.ceil(len(self._picked) / self.batch_size)
        self._dealt, self._per_process = dealt, batch_size // training._deal.processes
        firsts = training._release.evaluates_firsts and not training._label_smoothing
        counted = prepared.trained + prepared.firsts if firsts else prepared.trained
        self._weights = _row_weights(dealt, counted, self._per_process, self.rows)
        self._scale = self._count * self._weights
        shares = training._steps.metric_shares(dealt, prepared, batch_size)
        self._shares = {name: self._count * each for name, each in shares.items()}
        self._parts = (training, prepared, packing)

    def __iter__(self) -> Iterator[Batch]:
        training, prepared, packing = self._parts
        arrays = (prepared, self._picked, self._scale, self.batch_size, self.length, packing, self._shares)
        made = training._assemble(*arrays)
        return placed(made, training._mesh)

    def __len__(self) -> int:
        return self._count

    @functools.cached_property
    def whole(self) -> WholeBatches:
        """The same rows as each GPU process padded them, for a metric of the predictions.

        ValueError for rows that TRL runs together: the Trainer counts a batch of them as one row.
        """
        training, prepared, _ = self._parts
        if training._sft_rows.flattens or prepared.tokens.parts is not None:
            raise ValueError(
                "compute_metrics under packing or padding-free: TRL runs a batch's rows together, and the Trainer cuts "
                "what it gathers as if they were apart. Set packing=False and padding_free=False"
            )
        steps, first = [], 0
        for batch in self._dealt:
            shares = [batch[start : start + self._per_process] for start in range(0, len(batch), self._per_process)]
            weights = np.split(self._weights[first : first + len(batch)], np.cumsum([len(s) for s in shares])[:-1])
            steps.append([self._share(share, weight) for share, weight in zip(shares, weights, strict=True)])
            first += len(batch)
        kept = training._deal.kept(self.rows, self._dealt)
        return WholeBatches(steps, training._mesh, kept, training._label_smoothing)

    def _share(self, picked: np.ndarray, weights: np.ndarray) -> Share:
        training, prepared, _ = self._parts
        rows = [prepared.rows[int(row)] for row in picked]
        multiple = training._pad_to_multiple_of
        width = -(-max(sum(stop - start for start, stop in row) for row in rows) // multiple) * multiple
        ids = np.full((len(rows), width), training._padding, np.int32)
        labels = np.full((len(rows), width), IGNORED, np.int32)
        attended = np.zeros((len(rows), width), bool)
        for place, row in enumerate(rows):
            taken = np.concatenate([np.arange(start, stop) for start, stop in row])
            ids[place, : len(taken)] = prepared.tokens.ids[taken]
            labels[place, : len(taken)] = prepared.tokens.labels[taken]
            attended[place, : len(taken)] = True
        return Share(ids, labels, attended, weights)


def _row_weights(dealt: list[np.ndarray], counted: np.ndarray, per_process: int, rows: int) -> np.ndarray:
    """What a token of each row counts in HF's eval_loss. Rows that accelerate repeats weigh in their batch only.

    A batch without a trained token makes the whole loss NaN, as in HF.
    """
    weights = []
    seen = 0
    for batch in dealt:
        for start in range(0, len(batch), per_process):
            share = batch[start : start + per_process]
            new = max(0, min(len(share), rows - seen))
            seen += len(share)
            total = counted[share].sum()
            weights.append(np.full(len(share), new / total if total else math.nan if new else 0.0))
    return np.concatenate(weights) / min(rows, seen)
