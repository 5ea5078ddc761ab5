"""From a dataset to the rows of a run: tokenised, cut or packed, and shuffled where TRL shuffles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import packing as packer
from .packing import MAP_BATCH, Row
from .response_masks import LabelMask, mask_of_rows
from .tokenization import IGNORED, Preparation, Tokens, tokenise, tokenise_rows, trained_spans

Buffered = Callable[[list[packer.Span]], tuple[list[int], list[Row]]]
"""Packing that also orders the documents: from their spans to their order and the rows."""


@dataclass(frozen=True)
class Rows:
    """Rows of a run: spans of documents in one long array of tokens.

    `trained`: int64 (rows,), the tokens of each row that count in the loss; `firsts`: int64 (rows,), 1 where a row's
    first token has a label too, though nothing predicts it. `epochs`: for a streamed dataset the row
    numbers of every pass, in the order of the stream; None for one that an epoch's order is drawn for.
    """

    tokens: Tokens
    rows: list[Row]
    lengths: np.ndarray
    trained: np.ndarray
    firsts: np.ndarray
    epochs: list[np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def prepared(self) -> PreparedRows:
        """The rows as dictionaries, made when they are read."""
        return PreparedRows(self)


class PreparedRows(Sequence[dict[str, list[int]]]):
    """`input_ids` and `labels` of each row, as a prepared dataset gives them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"PreparedRows({{features: ['input_ids', 'labels'], num_rows: {len(self)}}})"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        row, tokens = self._rows.rows[index], self._rows.tokens
        named = (("input_ids", tokens.ids), ("labels", tokens.labels))
        return {name: [int(token) for span in row for token in values[slice(*span)]] for name, values in named}


def _rows(
    tokens: Tokens,
    rows: list[Row],
    epochs: list[np.ndarray] | None = None,
    masks_first: bool = True,
    flattens: bool = False,
) -> Rows:
    if not rows:
        raise ValueError(
            "no row is left after tokenising: none has a trained token within max_length. Check the completion or "
            "assistant mask, max_length and truncation_mode"
        )
    counts = np.concatenate(([0], np.cumsum(tokens.labels != IGNORED)))
    # A row's first token has nothing before it that could predict it, nor has a document's, unless the one before does
    trained = [
        sum(
            int(counts[stop] - counts[min(start + (masks_first or not place), stop)])
            for place, (start, stop) in enumerate(row)
        )
        for row in rows
    ]
    labelled = [bool(row) and row[0][1] > row[0][0] and tokens.labels[row[0][0]] != IGNORED for row in rows]
    firsts = np.asarray(labelled, np.int64) * (not (flattens and masks_first))
    return Rows(tokens, rows, packer.lengths(rows), np.asarray(trained, np.int64), firsts, epochs)


def prepare(
    dataset: Any,
    preparation: Preparation,
    *,
    packing: str | None,
    max_length: int | None,
    skip_prepare: bool,
    shuffle_seed: int | None,
    num_proc: int | None,
    buffered: Buffered | None = None,
    masks_first: bool = True,
    flattens: bool = False,
) -> Rows:
    """Rows of a dataset that is all there.

    `packing` is a strategy or None; `shuffle_seed` None keeps the order; `num_proc` decides where packing cuts.
    `buffered` packs as TRL before 0.15; `masks_first`: whether the first token of every document is untrained;
    `flattens`: whether the collator runs the rows together.
    """
    mask = preparation.label_mask if packing is not None and not skip_prepare and buffered is None else None
    whole = mask is not None and mask_of_rows(mask)
    tokens = tokenise(dataset, replace(preparation, label_mask=None) if whole else preparation)
    if buffered is not None:
        order, rows = buffered(tokens.spans)
        return _rows(_take(tokens, np.asarray(order)), rows)
    if skip_prepare:
        parts = tokens.parts or [[stop - start] for start, stop in tokens.spans]
        rows = [_split(start, sizes) for (start, _), sizes in zip(tokens.spans, parts, strict=True)]
        return _rows(tokens, rows, masks_first=masks_first, flattens=flattens)
    if packing is not None:
        assert max_length is not None  # tokenization.plan refuses packing without it
        if shuffle_seed is not None:
            tokens = _take(tokens, _shuffled(len(tokens.spans), shuffle_seed))
        rows = packer.pack(tokens.spans, max_length, packing, num_proc)
        if whole and mask is not None:
            tokens, rows = _masked(tokens, rows, mask)
    else:
        drops = preparation.keep is not None and preparation.drops_untrained
        drops = drops or getattr(preparation.label_mask, "drops_rows", False)
        spans = trained_spans(tokens) if drops else tokens.spans
        rows = [(span,) for span in spans]
    if shuffle_seed is not None:
        rows = [rows[i] for i in _shuffled(len(rows), shuffle_seed)]
    return _rows(tokens, rows, masks_first=masks_first, flattens=flattens)


def joined(rows: Rows) -> Rows:
    """The rows as one document each, whose tokens see all before them and count their positions on."""
    places = np.concatenate([np.arange(start, stop) for row in rows.rows for start, stop in row])
    spans = list(itertools.pairwise(np.concatenate(([0], np.cumsum(rows.lengths))).tolist()))
    tokens = Tokens(rows.tokens.ids[places], rows.tokens.labels[places], spans)
    return _rows(tokens, [(span,) for span in spans], rows.epochs, masks_first=False)


def _masked(tokens: Tokens, rows: list[Row], mask: LabelMask) -> tuple[Tokens, list[Row]]:
    """The labels that a mask leaves of each packed row, and the rows that it doesn't leave untrained."""
    labels, kept = tokens.labels.copy(), []
    for row in rows:
        left = np.asarray(mask([int(label) for start, stop in row for label in labels[start:stop]]), labels.dtype)
        place = 0
        for start, stop in row:
            labels[start:stop] = left[place : place + stop - start]
            place += stop - start
        if np.any(left != IGNORED):
            kept.append(row)
    return replace(tokens, labels=labels), kept


def stream(
    dataset: Iterable[Any],
    preparation: Preparation,
    *,
    packing: str | None,
    max_length: int | None,
    steps: int,
    step_rows: int,
    steps_of: Callable[[int], int],
) -> Rows:
    """The rows of the first `steps` steps of a streamed dataset, in its own order, passed over again where it is short.

    `step_rows`: rows of a full step; `steps_of`: how many full steps a pass of so many rows makes. ValueError when a
    pass makes none.
    """
    ids: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    rows: list[Row] = []
    epochs: list[np.ndarray] = []
    offset = 0
    if packing is not None and preparation.label_mask is not None and mask_of_rows(preparation.label_mask):
        raise ValueError("a mask of responses on packed rows needs the dataset whole: load it with streaming=False")
    while steps > 0:
        if epochs and hasattr(dataset, "set_epoch"):
            dataset.set_epoch(len(epochs))  # a shuffled stream gives another order in every pass
        first = len(rows)
        for batch in _batched(tokenise_rows(dataset, preparation), MAP_BATCH if packing else 1):
            spans = []
            for row_ids, row_labels in batch:
                spans.append((offset, offset + len(row_ids)))
                ids.append(row_ids)
                labels.append(row_labels)
                offset += len(row_ids)
            if packing is not None and max_length is not None:
                rows += packer.pack(spans, max_length, packing)
            elif preparation.keep is None or not preparation.drops_untrained or np.any(labels[-1] != IGNORED):
                rows.append((spans[0],))
            if len(rows) - first >= steps * step_rows:
                break
        epochs.append(np.arange(first, len(rows)))
        made = steps_of(len(rows) - first)
        if not made:
            raise ValueError(
                f"a pass over the streamed dataset gives {len(rows) - first} rows, less than the {step_rows} of a step"
            )
        steps -= made
    return _rows(Tokens(np.concatenate(ids), np.concatenate(labels), []), rows, epochs)


def _batched(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while batch := list(itertools.islice(items, size)):
        yield batch


def _split(start: int, sizes: list[int]) -> Row:
    ends = [start, *(start + np.cumsum(sizes)).tolist()]
    return tuple(itertools.pairwise(ends))


def _shuffled(n: int, seed: int) -> np.ndarray:
    """The permutation of `datasets.Dataset.shuffle(seed=seed)`."""
    return np.random.default_rng(seed).permutation(n)


def _take(tokens: Tokens, order: np.ndarray) -> Tokens:
    spans = [tokens.spans[i] for i in order]
    ends = np.concatenate(([0], np.cumsum([stop - start for start, stop in spans]))).tolist()
    return Tokens(
        np.concatenate([tokens.ids[start:stop] for start, stop in spans]),
        np.concatenate([tokens.labels[start:stop] for start, stop in spans]),
        list(itertools.pairwise(ends)),
    )


def is_stream(dataset: Any) -> bool:
    """Whether the dataset is read from the start only: an IterableDataset of `datasets` or of torch.

    ValueError for none at all, as a script gives it that neither trains nor evaluates (`data if args.do_train else
    None`).
    """
    if dataset is None:
        raise ValueError(
            "the dataset is None: a port makes its batches before it knows whether it trains. Set --do_train, or "
            "what else the script asks for; to evaluate alone, give it training rows, too"
        )
    return any(cls.__name__ == "IterableDataset" for cls in type(dataset).__mro__)
