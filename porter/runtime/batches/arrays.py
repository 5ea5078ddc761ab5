"""How rows lie in the arrays of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import jax
import numpy as np

from ..rows.packing import Span
from ..rows.tokenization import IGNORED, Tokens

Batch = dict[str, np.ndarray]


def empty(rows: int, length: int, padding: int, *, documents: bool) -> Batch:
    """A micro-batch of padding that trains nothing, see `SFTBatches`; `documents`: with their number in each row."""
    shape = (rows, length)
    batch = {
        "input_tokens": np.full(shape, padding, np.int32),
        "labels": np.full(shape, IGNORED, np.int32),
        "positions": np.tile(np.arange(length, dtype=np.int32), (rows, 1)),
        "segment_ids": np.zeros(shape, np.int32),
        "scale": np.zeros(rows, np.float32),
    }
    return batch | {"documents": np.zeros(rows, np.int32)} if documents else batch


def smoothed(batch: Batch, label_smoothing: float) -> Batch:
    """The batch with what `token_loss` spreads over the vocabulary, where there is something to spread."""
    if not label_smoothing:
        return batch
    return batch | {"smoothing": np.full(batch["scale"].shape, label_smoothing, np.float32)}


def fill(batch: Batch, place: int, tokens: Tokens, spans: Sequence[Span], *, mask_first: bool) -> None:
    """Put the documents of `spans` one after the other into row `place`; `mask_first`: their first tokens untrained."""
    at = 0
    for number, (start, stop) in enumerate(spans, 1):
        end = at + stop - start
        batch["input_tokens"][place, at:end] = tokens.ids[start:stop]
        batch["labels"][place, at:end] = tokens.labels[start:stop]
        batch["segment_ids"][place, at:end] = number
        if at:  # positions start over with every document; padding counts on
            batch["positions"][place, at:] -= batch["positions"][place, at]
        if mask_first and stop > start:
            batch["labels"][place, at] = IGNORED
        at = end
    if "documents" in batch:
        batch["documents"][place] = len(spans)


def filled_up(values: np.ndarray, rows: int) -> np.ndarray:
    """`values` of the first rows of a micro-batch, float32 (`rows`,): 0 of those that are missing."""
    return np.pad(values.astype(np.float32), (0, rows - len(values)))


def divisible(rows_of_batch: int, mesh: jax.sharding.Mesh) -> int:
    """The smallest batch that holds the rows and that the mesh divides, however many JAX processes it lies in."""
    unit = dict(mesh.shape).get("fsdp", 1)
    return -(-rows_of_batch // unit) * unit


def by_token(scale: np.ndarray, lengths: np.ndarray, places: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """What each token of packed rows counts, (rows, `length`), where rows of the GPU run's micro-batches differ.

    `scale` and `lengths` are those of the rows that are packed, `places` which of them each packed row holds.
    """
    found = np.zeros((len(places), length), np.float32)
    for place, together in enumerate(places):
        weights = np.repeat(scale[list(together)], lengths[list(together)])
        found[place, : len(weights)] = weights
    return found


def with_noise(
    made: Iterable[Batch], rows: int, alpha: float, widths: np.ndarray, draws: np.random.RandomState
) -> Iterator[Batch]:
    """A step's micro-batches, `rows` in all, with the bound and the seed of each row's noise, see `noisy_embeddings`.

    `widths`: the lengths to which the GPU run padded the step's rows, in their order; missing rows have no noise.
    """
    bounds = np.zeros(rows, np.float32)
    bounds[: len(widths)] = alpha / np.sqrt(widths)
    seeds = draws.randint(0, 2**32, size=rows, dtype=np.uint32)
    start = 0
    for batch in made:
        own = slice(start, start := start + len(batch["input_tokens"]))
        yield batch | {"noise": bounds[own], "noise_seeds": seeds[own]}
