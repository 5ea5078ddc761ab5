"""The order of a source's documents, where its dataset has one."""

from __future__ import annotations

from datasets import Dataset

from porter.validate.torch_side.read_torch import marks


class Stream:
    """As ConstantLengthDataset of older TRLs over a stream: it has a length, which fails when it is asked."""

    column_names = None

    def __len__(self) -> int:
        raise TypeError("object of type 'IterableDataset' has no len()")


def test_a_stream_has_no_marks_and_is_not_asked_for_its_length() -> None:
    assert marks(Stream()) == []
    assert marks(Dataset.from_list([{"text": "a"}])) == []
    assert len(set(marks(Dataset.from_list([{"input_ids": [1, 2]}, {"input_ids": [3]}])))) == 2
