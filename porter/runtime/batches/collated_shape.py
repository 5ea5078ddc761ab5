"""The arrays of collated rows: how wide, and which padding may be seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..facts.lengths import LENGTH_MULTIPLE, rounded
from ..facts.releases import BLIND
from ..rows.collation import IGNORED, CollatedRow
from .arrays import Batch


class Shape:
    """What all batches of a run have in common: T, and whether some tokens may not be seen; `tokens` of all rows, and
    how many of these are `untrained`, without a token that is.

    `blind`: the name under which batches say which padding has no token to see, empty where it gets nothing of it.
    """

    def __init__(self, of_no_token: str = "nothing") -> None:
        self.length = LENGTH_MULTIPLE
        self.masked = False
        self.tokens = self.untrained = 0
        self.of_no_token = of_no_token
        self.blind = BLIND.get(of_no_token, "")

    @classmethod
    def of(cls, rows: Iterator[CollatedRow], of_no_token: str = "nothing") -> Shape:
        shape = cls(of_no_token)
        for row in rows:
            shape.include(row)
            shape.tokens += len(row.ids)
            shape.untrained += not row.labelled
        return shape

    def include(self, row: CollatedRow) -> None:
        """Make room for a row: one collated with others may be longer than the first look at the dataset showed."""
        self.length = max(self.length, rounded(len(row.ids)))
        self.masked = self.masked or not row.attended.all()

    def empty(self, batch_size: int) -> Batch:
        shape = (batch_size, self.length)
        batch = {
            "input_tokens": np.zeros(shape, np.int32),
            "labels": np.full(shape, IGNORED, np.int32),
            "positions": np.tile(np.arange(self.length, dtype=np.int32), (batch_size, 1)),
            "segment_ids": np.zeros(shape, np.int32),
            "scale": np.zeros(batch_size, np.float32),
        }
        if self.masked:
            batch["attended"] = np.ones(shape, bool)
        if self.masked and self.blind:
            batch[self.blind] = np.zeros(shape, bool)
        return batch
