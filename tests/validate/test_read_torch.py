"""What a trace reads of torch's objects: the order of a source's documents, whether dropout is off."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset

from porter.validate.torch_side.read_torch import dropouts, keep_own_keyword, marks, token_losses, without_dropout


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


@pytest.mark.parametrize(("adapter", "found"), [("lora_A", [0.05]), ("weight", [])])
def test_a_merged_adapters_dropout_is_no_setting_of_the_training(adapter: str, found: list[float]) -> None:
    model = torch.nn.Module()
    model.register_parameter(adapter, torch.nn.Parameter(torch.zeros(2)))
    model.peft_config = {"default": SimpleNamespace(lora_dropout=0.05)}  # type: ignore[assignment]
    assert dropouts(model) == found


@pytest.mark.parametrize(
    ("given", "leaves_on", "off"),
    [({}, False, True), ({"disable_dropout": False}, False, False), ({}, True, False)],  # True: a script of before it
)
def test_a_trainer_with_a_keyword_of_its_own_for_dropout(given: dict[str, bool], leaves_on: bool, off: bool) -> None:
    told = []

    class Trainer:
        def __init__(self, args: Any) -> None:
            told.append(keep_own_keyword(args, sys._getframe(1), leaves_on=leaves_on))

    class Preferences(Trainer):
        def __init__(self, args: Any, disable_dropout: bool = True) -> None:
            super().__init__(args)

    plain, old, new = SimpleNamespace(), SimpleNamespace(), SimpleNamespace(disable_dropout=not off)
    Trainer(plain)
    Preferences(old, **given)
    Preferences(new, **given)

    assert (without_dropout(plain), without_dropout(old), without_dropout(new)) == (False, off, not off)
    assert told == [False, leaves_on, False]
