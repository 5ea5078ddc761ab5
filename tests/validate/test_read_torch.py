"""The order of a source's documents, where its dataset has one."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from datasets import Dataset

from porter.validate.torch_side.read_torch import marks, token_losses


class Stream:
    """As ConstantLengthDataset of older TRLs over a stream: it has a length, which fails when it is asked."""

    column_names = None

    def __len__(self) -> int:
        raise TypeError("object of type 'IterableDataset' has no len()")


def test_a_stream_has_no_marks_and_is_not_asked_for_its_length() -> None:
    assert marks(Stream()) == []
    assert marks(Dataset.from_list([{"text": "a"}])) == []
    assert len(set(marks(Dataset.from_list([{"input_ids": [1, 2]}, {"input_ids": [3]}])))) == 2


def test_rows_within_rows_have_no_losses_of_their_own() -> None:
    labels = torch.ones(2, 5, dtype=torch.long)
    losses = token_losses(SimpleNamespace(logits=torch.zeros(2, 5, 7)), labels)
    assert losses is not None and losses.shape == (2, 5)
    assert token_losses(SimpleNamespace(logits=torch.zeros(2, 1, 5, 7)), labels[:, None]) is None
