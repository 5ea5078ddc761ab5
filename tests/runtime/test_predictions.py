"""Predictions as the Trainer gathers them, from logits that are given: order, padding and rows of each GPU process.

Beside the real Trainer: tests/real/test_metrics.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.runtime.batches.deal_rows import Deal
from porter.runtime.batches.predictions import Gathered, Preprocessing, Share, WholeBatches

VOCABULARY = 50


@pytest.fixture
def mesh() -> Any:
    import jax

    return jax.make_mesh((4, 1), ("fsdp", "tp"), devices=jax.devices()[:4])


def share(*rows: list[int]) -> Share:
    """Rows padded on the right with 0, each token its own label."""
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int32)
    seen = np.array([[True] * len(row) + [False] * (width - len(row)) for row in rows])
    return Share(ids, np.where(seen, ids, -100), seen, np.full(len(rows), 0.5))


def echo(batches: WholeBatches, function: Any, seen: list[Any], **settings: Any) -> Gathered:
    """What is gathered of a model that predicts its own tokens, 1 for all that lies beyond its rows."""
    import jax.numpy as jnp

    def compute(prediction: Any) -> dict[str, Any]:
        seen.append(prediction)
        return {"rows": np.int64(len(prediction.label_ids)), "of": {"each": [np.float32(0.5)]}}

    gathered = Gathered(batches, Preprocessing(function), compute, **settings)
    for batch in batches:
        tokens = np.where(batch["segment_ids"] > 0, batch["input_tokens"], 1)
        gathered.add(jnp.asarray(np.eye(VOCABULARY, dtype=np.float32)[tokens]))
    return gathered


def test_batches_hold_whole_steps_with_their_padding(mesh: Any) -> None:
    batches = WholeBatches([[share([5, 6, 7], [8])], [share([9, 10])], [share([11])]], mesh, None)
    first, second = batches
    assert (len(batches), batches.batch_size, batches.length) == (2, 4, 128)
    assert first["input_tokens"][:, :3].tolist() == [[5, 6, 7], [8, 0, 0], [9, 10, 0], [0, 0, 0]]
    assert first["attended"][:2, :3].tolist() == [[True] * 3, [True, False, False]]
    assert first["segment_ids"][:, :4].tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert first["scale"].tolist() == [1.0, 1.0, 1.0, 0.0]  # twice their weight: the mean of two batches is reported
    assert second["input_tokens"][0, 0] == 11


@pytest.mark.parametrize("traced", [True, False])
def test_batches_are_filled_up_and_repeated_rows_left_out(mesh: Any, traced: bool) -> None:
    calls: list[Any] = []

    def best(logits: Any, labels: Any) -> Any:
        calls.append((logits.shape, labels.shape))
        return logits.argmax(-1) if traced else np.asarray(logits).argmax(-1)

    # Two processes, two rows each; the last step repeats two rows to fill the second process.
    steps = [[share([5, 6, 7], [8]), share([9], [10])], [share([11], [12]), share([5, 6], [8])]]
    seen: list[Any] = []
    gathered = echo(WholeBatches(steps, mesh, 2), best, seen, inputs=True)

    assert gathered.metrics("test") == {"test_rows": 6, "test_of": {"each": [0.5]}}
    predictions, labels, inputs = seen[0]
    # Beyond its own width a process has logits of -100, whose argmax is 0; beyond a step's width there is -100.
    expected = [[5, 6, 7], [8, 0, 0], [9, 0, 0], [10, 0, 0], [11, 0, -100], [12, 0, -100]]
    assert predictions.tolist() == expected and predictions.dtype == np.int64
    assert labels[:2].tolist() == [[5, 6, 7], [8, -100, -100]] and labels[4].tolist() == [11, -100, -100]
    assert inputs[1].tolist() == [8, 0, 0] and inputs[2].tolist() == [9, -100, -100]
    assert set(calls) == {((2, 3, VOCABULARY), (2, 3)), ((2, 2, VOCABULARY), (2, 2))}


def test_logits_and_tuples_are_gathered_as_they_are(mesh: Any) -> None:
    steps = [[share([5, 6])], [share([7])]]
    seen: list[Any] = []
    echo(WholeBatches(steps, mesh, None), None, seen).metrics()
    assert seen[0].predictions.shape == (2, 2, VOCABULARY) and np.all(seen[0].predictions[1, 1] == -100)

    def several(logits: Any, labels: Any) -> Any:
        return logits.argmax(-1), logits.max(axis=(1, 2))

    echo(WholeBatches(steps, mesh, None), several, seen).metrics()
    best, highest = seen[1].predictions
    assert best.tolist() == [[5, 6], [7, -100]] and highest.tolist() == [1.0, 1.0]


def test_how_many_rows_of_the_last_batch_count() -> None:
    def kept(rows: int, *, processes: int = 1, drop_last: bool = False) -> int | None:
        deal = Deal(batch_size=4, accumulation=1, processes=processes, drop_last=drop_last)
        return deal.kept(rows, deal.batches(np.arange(rows)))

    assert [kept(8), kept(9), kept(9, processes=2), kept(9, drop_last=True)] == [None, 1, 1, None]
    assert [kept(3), kept(3, processes=2)] == [None, 3]
