"""The rows of a dataset as a data collator makes them for transformers' Trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .collation import COLUMNS, CollatedRow, Collator, only, read_rows, read_whole, without_torch

FIRST_LOOK = 64  # rows that are collated at a time to find the longest

Numbers = Sequence[int] | np.ndarray


class CollatedRows:
    """Calls a collator with rows of a dataset, and reads what it makes of them.

    `remove_unused_columns`: the Trainer's. `inputs`, `unlabelled`: of the batch, see `TrainerBatches`. `of_no_token`:
    `Release.of_no_token`.
    """

    def __init__(
        self,
        collator: Collator,
        *,
        remove_unused_columns: bool,
        inputs: Mapping[str, str | int] | None,
        unlabelled: Mapping[str | int, int] | None,
        of_no_token: str,
    ) -> None:
        self._keep = COLUMNS if remove_unused_columns else None
        self._collator = without_torch(collator)
        if inputs is not None:
            self._collator = only(self._collator, inputs, unlabelled)
        self._of_no_token = of_no_token

    def columns(self, dataset: Any) -> Any:
        """The dataset without the columns that its library takes away before rows are read."""
        if self._keep is None or not hasattr(dataset, "remove_columns"):
            return dataset
        gone = [name for name in dataset.column_names if name not in self._keep]
        if len(gone) == len(dataset.column_names):
            raise ValueError(
                f"no column of the dataset is an input of the model (it has {', '.join(gone)}): tokenise it first, or "
                "set remove_unused_columns=False where the collator does"
            )
        return dataset.remove_columns(gone)

    def rows(self, dataset: Any, numbers: Numbers) -> list[CollatedRow]:
        """Those of one batch, without idle padding."""
        return list(read_rows(self._collator(self._features(dataset, numbers)), self._of_no_token))

    def whole(self, dataset: Any, numbers: Numbers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One batch as the collator padded it, see `read_whole`."""
        return read_whole(self._collator(self._features(dataset, numbers)))

    def all(self, dataset: Any) -> Iterator[CollatedRow]:
        """All rows: many at a time, or one by one where the collator only takes rows of a length."""
        at_once = FIRST_LOOK
        start = 0
        while start < len(dataset):
            try:
                rows = self.rows(dataset, range(start, min(start + at_once, len(dataset))))
            except Exception:
                if at_once == 1:
                    raise
                at_once = 1
                continue
            yield from rows
            start += at_once

    def _features(self, dataset: Any, rows: Numbers) -> list[Any]:
        """Rows as the collator gets them."""
        numbers = [int(row) for row in rows]
        fetch = getattr(dataset, "__getitems__", None)
        features = fetch(numbers) if fetch is not None else [dataset[number] for number in numbers]
        if self._keep is None:
            return list(features)
        keep = self._keep
        return [
            {name: value for name, value in feature.items() if name in keep} if isinstance(feature, dict) else feature
            for feature in features
        ]
