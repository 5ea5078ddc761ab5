"""The order of rows. Expected numbers come from torch 2.13 and accelerate 1.15 (tests/real/test_data_parts.py)."""

from types import SimpleNamespace

import numpy as np
import pytest

from porter.runtime.batches.order import epoch_order, micro_batches, randperm, sampling_of

PERM_42 = [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]


def test_randperm_gives_torch_s_numbers() -> None:
    # torch.randperm(10, generator=torch.Generator().manual_seed(42))
    assert randperm(10, 42).tolist() == PERM_42
    assert randperm(10, 43).tolist() != PERM_42


def test_randperm_of_nothing_and_of_one() -> None:
    assert randperm(0, 1).tolist() == []
    assert randperm(1, 1).tolist() == [0]


def test_randperm_refuses_what_torch_draws_with_64_bits() -> None:
    with pytest.raises(ValueError, match="another generator"):
        randperm(2**32 // 20, 0)


def test_every_epoch_has_its_own_order() -> None:
    first, second = (epoch_order(10, sampling="random", seed=41, epoch=epoch) for epoch in (0, 1))
    assert second.tolist() == PERM_42
    assert first.tolist() != second.tolist()
    assert epoch_order(4, sampling="sequential", seed=41, epoch=1).tolist() == [0, 1, 2, 3]


LENGTHS = [5, 9, 2, 14, 7, 3, 14, 1, 8, 6, 4, 12, 10]
GROUPED = [[6, 11, 8, 4, 1, 9, 12, 0, 3, 2, 5, 7, 10], [3, 0, 1, 9, 8, 2, 6, 12, 10, 7, 4, 5, 11]]


def test_rows_of_like_length_come_together() -> None:
    # transformers' LengthGroupedSampler(2, lengths=LENGTHS) in a DataLoader after set_seed(42)
    orders = [epoch_order(13, sampling="group_by_length", seed=42, epoch=e, lengths=LENGTHS, group=2) for e in (0, 1)]
    assert [order.tolist() for order in orders] == GROUPED


def test_order_by_length_needs_lengths() -> None:
    with pytest.raises(ValueError, match="rows of one text"):
        epoch_order(4, sampling="group_by_length", seed=0, epoch=0)


def test_the_older_keyword_asks_for_it_too() -> None:
    assert sampling_of(SimpleNamespace(train_sampling_strategy="sequential")) == "sequential"
    assert sampling_of(SimpleNamespace(train_sampling_strategy="random", group_by_length=True)) == "group_by_length"


def batches(n: int, size: int, processes: int, drop_last: bool = False) -> list[list[int]]:
    return [batch.tolist() for batch in micro_batches(np.arange(n), size, processes, drop_last)]


def test_one_process_keeps_a_short_last_batch() -> None:
    assert batches(5, 2, 1) == [[0, 1], [2, 3], [4]]


def test_several_processes_fill_the_last_batch_from_the_start() -> None:
    assert batches(5, 4, 2) == [[0, 1, 2, 3], [4, 0, 1, 2]]
    assert batches(1, 4, 2) == [[0, 0, 0, 0]]


def test_drop_last_drops_what_does_not_fill_every_process() -> None:
    assert batches(7, 4, 2, drop_last=True) == [[0, 1, 2, 3]]
    assert batches(3, 4, 2, drop_last=True) == []


def test_rows_that_the_processes_cannot_share_are_refused() -> None:
    with pytest.raises(ValueError, match="3 processes"):
        micro_batches(np.arange(4), 4, 3, False)
