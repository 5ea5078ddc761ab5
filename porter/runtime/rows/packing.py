"""TRL's ways to pack documents into rows, on document offsets alone.

A packed row is a tuple of (start, stop) spans of one long array of tokens, each span a document that must not
see the others. TRL packs every `datasets.map` batch of 1000 documents for itself (and each of
`dataset_num_proc` shards), so a port has to cut at the same places.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import MutableSequence
from typing import Any, Protocol

import numpy as np

Span = tuple[int, int]
Row = tuple[Span, ...]

MAP_BATCH = 1000  # rows of one `datasets.map` batch, its default
STRATEGIES = ("bfd", "bfd_split", "bfd-requeue", "ffd", "wrapped")


def pack(spans: list[Span], max_length: int, strategy: str = "bfd", num_proc: int | None = None) -> list[Row]:
    """Rows of at most `max_length` tokens out of documents.

    `bfd` cuts a longer document off, `bfd_split` and `bfd-requeue` pack its pieces; all use best fit, decreasing.
    `ffd` is the `bfd` of TRL 0.19 to 0.21, whose search for room passed over rows with little of it. `wrapped` runs the
    documents together and cuts every `max_length` tokens: one span a row, whose documents do see each other. The spans
    of one batch must follow each other without gaps for `wrapped`.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"packing_strategy={strategy!r}: expected one of {', '.join(map(repr, STRATEGIES))}")
    rows: list[Row] = []
    for picked in map_batches(len(spans), MAP_BATCH, num_proc):
        batch = spans[picked.start : picked.stop]
        if strategy == "wrapped":
            rows += _wrapped(batch, max_length)
        else:
            pieces = _fit(batch, max_length, split=strategy in ("bfd_split", "bfd-requeue"))
            rows += _best_fit_decreasing(pieces, max_length, _passed_over(max_length) if strategy == "ffd" else 0)
    return rows


def map_batches(rows: int, size: int, num_proc: int | None) -> list[range]:
    """Which rows `datasets.map(batched=True, batch_size=size, num_proc=num_proc)` hands over together."""
    parts = min(num_proc or 1, rows) or 1
    bounds = [0, *itertools.accumulate(rows // parts + (part < rows % parts) for part in range(parts))]
    return [
        range(start, min(start + size, stop))
        for low, stop in itertools.pairwise(bounds)
        for start in range(low, stop, size)
    ]


def _fit(spans: list[Span], max_length: int, *, split: bool) -> list[Span]:
    """Documents of at most `max_length` tokens; empty ones go."""
    if not split:
        return [(start, min(stop, start + max_length)) for start, stop in spans if stop > start]
    return [(piece, min(stop, piece + max_length)) for start, stop in spans for piece in range(start, stop, max_length)]


def _passed_over(max_length: int) -> int:
    """The room that TRL before 0.22 didn't find: so many tokens or fewer, none where the length is a power of two.

    Its tree has `max_length` leaves behind as many nodes. Those that don't lie on its last level hold the least room,
    and come last from left to right, which is how it searched.
    """
    last_level: int = 1 << (2 * max_length - 1).bit_length() - 1
    return last_level - max_length


def _best_fit_decreasing(spans: list[Span], max_length: int, passed_over: int = 0) -> list[Row]:
    """Longest document first, each into the fullest row that still holds it, the oldest of equals.

    A row with room for `passed_over` tokens or fewer gets none.
    """
    rows: list[list[Span]] = []
    spaces: list[int] = []  # distinct free spaces, ascending
    waiting: dict[int, deque[list[Span]]] = defaultdict(deque)  # free space -> rows with it, oldest first
    for start, stop in sorted(spans, key=lambda span: span[0] - span[1]):  # stable, like Arrow's sort
        length = stop - start
        best = bisect_left(spaces, max(length, passed_over + 1))
        if best < len(spaces):
            space = spaces[best]
            row = waiting[space].popleft()
            if not waiting[space]:
                spaces.pop(best)
        else:
            space, row = max_length, []
            rows.append(row)
        row.append((start, stop))
        space -= length
        if space:
            if not waiting[space]:
                insort(spaces, space)
            waiting[space].append(row)
    return [tuple(row) for row in rows]


def _wrapped(spans: list[Span], max_length: int) -> list[Row]:
    first, last = spans[0][0], spans[-1][1]
    if any(before[1] != after[0] for before, after in itertools.pairwise(spans)):
        raise ValueError("wrapped packing needs documents that follow each other")
    return [((start, min(last, start + max_length)),) for start in range(first, last, max_length)]


def lengths(rows: list[Row]) -> np.ndarray:
    """Tokens of every row: int64, shape (rows,)."""
    return np.asarray([sum(stop - start for start, stop in row) for row in rows], dtype=np.int64)


class Shuffles(Protocol):
    """Python's module `random`, or a `random.Random`."""

    def shuffle(self, x: MutableSequence[Any]) -> None: ...


def buffered(
    spans: list[Span], *, max_length: int, sizes: list[int], buffer: float, shuffles: bool, draw: Shuffles
) -> tuple[list[int], list[Row]]:
    """The ConstantLengthDataset of TRL before 0.15: the order of the documents, and rows of `max_length` tokens each.

    Documents are read until their `sizes` (characters of a text) fill `buffer`; then they are run together and cut, the
    rest is thrown away, and the rows are shuffled, from 0.11 on (`shuffles`) also the documents before. TRL shuffles
    with Python's global generator: `draw` is that (`random`), or a generator in its state. The rows are spans of the
    documents in the order given back.
    """
    order: list[int] = []
    rows: list[Row] = []
    first = end = 0
    while first < len(spans):
        last, filled = first, 0.0
        while last < len(spans) and filled < buffer:
            filled += sizes[last]
            last += 1
        documents = list(range(first, last))
        if shuffles:
            draw.shuffle(documents)
        start, end = end, end + sum(spans[i][1] - spans[i][0] for i in documents)
        cut: list[Row] = [((at, at + max_length),) for at in range(start, end - max_length + 1, max_length)]
        draw.shuffle(cut)
        order += documents
        rows += cut
        first = last
    return order, rows
