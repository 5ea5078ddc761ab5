"""A batch of rows as torch's DataLoader makes it without a collate_fn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.runtime.rows.collation import only
from porter.runtime.rows.stacking import stack_rows

torch = pytest.importorskip("torch")

ROWS = [{"input_ids": torch.tensor([1, 2, 3]), "labels": np.array([7, 8, 9]), "n": 5, "text": "a"}] * 2


def test_tensors_arrays_and_numbers_are_stacked() -> None:
    ours, theirs = stack_rows(ROWS), torch.utils.data.default_collate(ROWS)
    assert isinstance(ours, dict) and list(ours) == list(theirs)
    for name in ("input_ids", "labels", "n"):
        assert np.array_equal(ours[name], theirs[name].numpy())
    assert ours["text"] == theirs["text"] == ["a", "a"]


def test_rows_that_are_tuples_give_a_list_and_their_places_name_them() -> None:
    rows = [(torch.tensor([1, 2]), torch.tensor([3, 4])), (torch.tensor([5, 6]), torch.tensor([7, 8]))]
    ours, theirs = stack_rows(rows), torch.utils.data.default_collate(rows)
    assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
    batch = only(stack_rows, {"input_ids": 1, "labels": 0})(rows)
    assert {name: part.tolist() for name, part in batch.items()} == {
        "input_ids": [[3, 4], [7, 8]],
        "labels": [[1, 2], [5, 6]],
    }


def test_the_tokenizers_axis_goes() -> None:
    batch = stack_rows([{"input_ids": torch.ones(1, 4)}] * 3)
    assert isinstance(batch, dict) and batch["input_ids"].shape == (3, 4)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"input_ids": [1, 2]}, {"input_ids": [3, 4]}], "token by token"),
        ([([1, 2], [1, 2])], "token by token"),
        ([{"input_ids": np.ones(2)}, {"input_ids": np.ones(3)}], "several shapes"),
        (["text"], "no places"),
    ],
)
def test_what_torch_makes_no_batch_of_is_an_error(rows: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        stack_rows(rows)
