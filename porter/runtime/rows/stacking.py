"""Rows as torch's DataLoader makes a batch of them where it has no collate_fn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# What the batches of a language model are made of; other columns may hold anything.
_OF_MODEL = ("input_ids", "attention_mask", "labels", "position_ids")


def stack_rows(rows: Sequence[Any]) -> Any:
    """A batch of `rows`, as torch's own collation makes it: each part of them stacked to an array (rows, tokens).

    Rows are dicts, or tuples, of which the batch is a list, or tensors, of which it is one array. An axis of 1
    between, which a tokenizer leaves behind `return_tensors="pt"` and a loop takes away with `squeeze(1)`, goes.
    ValueError where no batch of a model comes of it, in torch neither: rows of several lengths, and lists of numbers,
    which torch takes apart token by token.
    """
    first = rows[0]
    if isinstance(first, Mapping):
        return {name: _stacked(name, [row[name] for row in rows]) for name in first}
    if isinstance(first, list | tuple):
        return [_stacked(place, list(values)) for place, values in enumerate(zip(*rows, strict=True))]
    if hasattr(first, "shape"):
        return _stacked("a row", list(rows))
    raise ValueError(f"a row is a {type(first).__name__}: its parts have no names and no places")


def _stacked(name: str | int, values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, list | tuple) and (name in _OF_MODEL or isinstance(name, int)):
        raise ValueError(
            f"{name!r} of a row is a {type(first).__name__}: torch's DataLoader takes it apart token by token, so that "
            "the source ends here, too. Let the dataset give tensors or arrays (set_format), or give it a collate_fn"
        )
    if isinstance(first, str | bytes | list | tuple | Mapping):
        return values
    arrays = [np.asarray(value) for value in values]
    lengths = sorted({array.shape for array in arrays})
    if len(lengths) > 1:
        raise ValueError(
            f"{name!r} of the rows has several shapes ({', '.join(map(str, lengths[:3]))}): torch's DataLoader stacks "
            "rows of one length, and ends here, too. Pad them to one, or give it a collate_fn"
        )
    stacked = np.stack(arrays)
    return stacked[:, 0] if stacked.ndim == 3 and stacked.shape[1] == 1 else stacked
