"""The batches of an evaluation set of transformers' Trainer, weighted so that their mean is its `eval_loss`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..hosts.global_arrays import placed
from ..rows.collation import CollatedRow
from .arrays import Batch, divisible
from .collated_shape import Shape
from .predictions import Share, WholeBatches

if TYPE_CHECKING:
    from .trainer_batches import TrainerBatches


class TrainerEvaluation:
    """Batches of an evaluation set, in the GPU run's order; made by `TrainerBatches.evaluation`.

    HF takes the mean over rows of each row's batch loss, itself a mean over trained tokens. That weight stands in
    `scale`, so that the batches can have the mesh's size.
    """

    def __init__(self, training: TrainerBatches, dataset: Any, batch_size: int) -> None:
        self.rows = len(dataset)
        self._dealt = training._deal.batches(training._evaluated(dataset, batch_size), batch_size)
        if not self._dealt:
            raise ValueError(f"{self.rows} evaluation rows don't fill one batch of {batch_size}")
        self.gpu_batches = len(self._dealt)
        self.batch_size = divisible(batch_size, training._mesh)
        self._count = math.ceil(sum(map(len, self._dealt)) / self.batch_size)
        self._parts = (training, dataset, batch_size)
        self._shape = Shape.of(training._collated.all(dataset), training._of_no_token)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Batch]:
        return placed(self._made(), self._parts[0]._mesh)

    def _made(self) -> Iterator[Batch]:
        training, dataset, batch_size = self._parts
        rows: list[CollatedRow] = []
        weights: list[float] = []
        seen = 0
        for batch in self._dealt:
            found, places = training._collate(dataset, [batch], batch_size)
            rows += found
            weights += (self._count * self._weights(found, places[:, 1], seen)).tolist()
            seen += len(batch)
            full = len(rows) // self.batch_size
            done = full * self.batch_size
            yield from training._assemble(rows[:done], np.array(weights), full, self.batch_size, self._shape)
            rows, weights = rows[done:], weights[done:]
        if rows:
            yield from training._assemble(rows, np.array(weights), 1, self.batch_size, self._shape)

    def singly(self) -> Iterator[Batch]:
        """Each batch of the GPU run by itself, filled up: its loss is the mean over the tokens that it trains, NaN as
        in torch where it trains none."""
        training, dataset, batch_size = self._parts
        for batch in self._dealt:
            rows, _ = training._collate(dataset, [batch], batch_size)
            trained = sum(row.trained for row in rows)
            scale = np.full(len(rows), 1 / trained if trained else math.nan)
            yield from training._assemble(rows, scale, 1, self.batch_size, self._shape)

    @functools.cached_property
    def whole(self) -> WholeBatches:
        """The same rows as the collator padded them for each GPU process, for a metric of the predictions."""
        training, dataset, batch_size = self._parts
        per_process = batch_size // training._deal.processes
        steps, seen = [], 0
        for batch in self._dealt:
            starts = range(0, len(batch), per_process)
            read = [training._collated.whole(dataset, batch[start : start + per_process]) for start in starts]
            ranks = np.repeat(np.arange(len(read)), [len(ids) for ids, _, _ in read])
            rows = [CollatedRow(*row) for arrays in read for row in zip(*arrays, strict=True)]
            weights = self._weights(rows, ranks, seen)
            steps.append([Share(*arrays, weights[ranks == rank]) for rank, arrays in enumerate(read)])
            seen += len(batch)
        kept = training._deal.kept(self.rows, self._dealt)
        return WholeBatches(steps, training._mesh, kept, training._label_smoothing, training._of_no_token)

    def _weights(self, rows: Sequence[CollatedRow], ranks: np.ndarray, seen: int) -> np.ndarray:
        """What a token of each row counts in HF's eval_loss. Rows that accelerate repeats weigh in their batch only.

        A batch without a trained token makes the whole loss NaN, as in HF.
        """
        training, processes = self._parts[0], self._parts[0]._deal.processes
        firsts = training._release.evaluates_firsts and not training._label_smoothing
        totals: Any = np.bincount(ranks, weights=[row.labelled if firsts else row.trained for row in rows])
        if training._tokens_of_all and training._release.evaluates_by_token:
            together = totals if training._label_smoothing else np.full(len(totals), totals.sum())
            totals = together / processes
        of_batch = 1 / np.where(totals > 0, totals, math.nan)
        sizes = np.bincount(ranks)
        before = seen + np.cumsum(sizes) - sizes
        counted = np.clip(self.rows - before, 0, sizes)
        weights = np.where(counted > 0, counted * of_batch, 0.0)
        return np.asarray(weights[ranks] / min(self.rows, sum(map(len, self._dealt))))
