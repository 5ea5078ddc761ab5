"""Rows of a step packed into micro-batches: all of them, whole, kept apart, in few tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from porter.runtime.batches.sft_batches import SFTBatches
from porter.runtime.batches.step_packing import fewest_micro_batches, packed
from tests.runtime.byte_tokens import byte_tokenizer

ROWS = [{"text": letter * n} for letter, n in zip("abcdefgh", (300, 10, 20, 500, 30, 200, 40, 50), strict=True)]


def make(mesh: Any = None, **settings: Any) -> SFTBatches:
    mesh = mesh or SimpleNamespace(shape={"fsdp": 1, "tp": 1})
    defaults = {"batch_size": 2, "accumulation": 4, "epochs": 1, "sampling": "sequential", "max_length": 512}
    return SFTBatches(ROWS, byte_tokenizer(), mesh, **{**defaults, **settings})


@given(
    st.lists(st.integers(1, 512), max_size=24),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([128, 256, 384])), max_size=4),
)
def test_every_row_stands_once_and_fits(lengths: list[int], others: list[tuple[int, int]]) -> None:
    shapes = [(2, 512), *others]
    count = fewest_micro_batches([lengths], shapes)
    found = packed(lengths, shapes, count)
    assert found is not None and len(found) == count
    assert sorted(place for _, bins in found for row in bins for place in row) == list(range(len(lengths)))
    for (rows, tokens), bins in found:
        assert (rows, tokens) in shapes and len(bins) == rows
        assert all(sum(lengths[place] for place in row) <= tokens for row in bins)
    assert count == 1 or packed(lengths, shapes, count - 1) is None


def test_the_cheapest_shapes_are_taken() -> None:
    shapes = [(4, 128), (2, 256), (1, 512), (4, 512)]
    assert [shape for shape, _ in packed([100, 100, 90, 100], shapes, 1) or []] == [(4, 128)]
    assert [shape for shape, _ in packed([200, 50, 100], shapes, 1) or []] == [(2, 256)]
    assert [shape for shape, _ in packed([500, 100], shapes, 2) or []] == [(1, 512), (4, 128)]
    many = [(rows, 128 * n) for rows in (1, 2, 3, 4) for n in (1, 2, 3, 4)]
    assert packed([500] + [120] * 30, many, 12) is not None  # more combinations than are tried one by one


def test_what_no_shape_holds_is_said() -> None:
    with pytest.raises(ValueError, match="a row of 501 tokens is longer than every shape"):
        make(step_packing=[(4, 256)])
    with pytest.raises(ValueError, match="leave out buckets and micro_batch"):
        make(step_packing=[(4, 512)], buckets=[128])
    with pytest.raises(ValueError, match=r"expected pairs \(rows, tokens\)"):
        make(step_packing=[(0, 128)])
    with pytest.raises(ValueError, match="several GPU processes"):
        make(step_packing=[(4, 512)], processes=2, average_tokens_across_devices=False)


def test_a_step_keeps_its_documents_and_its_sum(tiny_mesh: Any) -> None:
    plain, batches = make(), make(tiny_mesh(2, 1), step_packing=[(1, 512), (2, 256)])
    assert batches.shapes == ((2, 512), (2, 256)) and batches.accumulation == 2  # fsdp divides the rows
    made = list(batches)
    assert [batch["input_tokens"].shape for batch in made] == [(2, 512), (2, 256)]
    assert "as 2 x (2 x 512 or 2 x 256) tokens, 2" in str(batches) and len(made) == 2 * batches.steps

    def documents(batches: Any) -> dict[tuple[int, ...], float]:
        found = {}
        for batch in batches:
            for row, scale in enumerate(batch["scale"]):
                segments = batch["segment_ids"][row]
                assert batch.get("documents", segments.max(axis=-1, keepdims=True)).shape
                for number in range(1, segments.max() + 1):
                    inside = segments == number
                    assert np.array_equal(batch["positions"][row][inside], np.arange(inside.sum()))
                    labels = tuple(batch["labels"][row][inside][1:])
                    found[labels] = float(scale) / (len(made) if batches is not plain else len(list(plain)))
        return found

    ours, theirs = documents(made), documents(plain)
    assert ours == pytest.approx(theirs) and len(ours) == len(ROWS)
    for batch in made:  # the first token of a document is predicted by nothing
        starts = (batch["positions"] == 0) & (batch["segment_ids"] > 0)
        assert np.all(batch["labels"][starts] == -100)
        assert batch["documents"].tolist() == batch["segment_ids"].max(axis=1).tolist()


@pytest.mark.parametrize("processes", [1, 2])
def test_micro_batches_with_means_of_their_own_are_packed_too(processes: int) -> None:
    """Each row counts what it counts unpacked: its tokens' share of the mean of its micro-batch on its process."""
    settings: dict[str, Any] = {"mean_over": "micro_batch", "processes": processes, "seed": 3, "max_length": 256}

    def weights(batches: SFTBatches) -> dict[tuple[int, ...], float]:
        found = {}
        for batch in batches:
            scale = np.broadcast_to(batch["scale"].reshape(len(batch["scale"]), -1), batch["labels"].shape)
            for ids, documents, each in zip(
                *(np.asarray(batch[name]) for name in ("input_tokens", "segment_ids")), scale, strict=True
            ):
                for document in set(documents) - {0}:
                    own = documents == document
                    assert len(set(each[own])) == 1
                    found[tuple(ids[own])] = float(each[own][0]) / (batches.accumulation or 1)
        return found

    alone, together = weights(make(**settings)), weights(make(step_packing=[(2, 512)], **settings))
    assert alone.keys() == together.keys() and len(alone) == len(ROWS)
    assert all(together[row] == pytest.approx(alone[row]) for row in alone)
    assert len({round(weight, 9) for weight in alone.values()}) > 2
