"""The order of rows. Expected numbers come from torch 2.13 and accelerate 1.15 (tests/real/test_data_parts.py)."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from porter.runtime.batches.order import (
    epoch_order,
    epoch_orders,
    evaluated,
    micro_batches,
    randperm,
    sampling_of,
    seed_of,
)
from porter.runtime.facts.releases import release
from porter.runtime.facts.releases.habits import shuffling_of

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
HELD_OUT = [4, 8, 1, 9, 3, 7, 2, 6, 5, 11, 10, 12, 3, 5, 2, 7, 8, 1]
EVALUATED = [11, 9, 0, 4, 5, 7, 13, 6, 3, 15, 12, 17, 10, 8, 14, 2, 1, 16]
GROUPED = [[6, 11, 8, 4, 1, 9, 12, 0, 3, 2, 5, 7, 10], [3, 0, 1, 9, 8, 2, 6, 12, 10, 7, 4, 5, 11]]


def test_rows_of_like_length_come_together() -> None:
    # transformers' LengthGroupedSampler(2, lengths=LENGTHS) in a DataLoader after set_seed(42)
    orders = [epoch_order(13, sampling="group_by_length", seed=42, epoch=e, lengths=LENGTHS, group=2) for e in (0, 1)]
    assert [order.tolist() for order in orders] == GROUPED


def test_an_evaluation_by_length_is_drawn_behind_the_first_epoch() -> None:
    # LengthGroupedSampler(2, lengths=HELD_OUT) in a DataLoader after set_seed(42) and the 13 rows' first epoch
    assert evaluated(HELD_OUT, 2, 42, 13).tolist() == EVALUATED


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


@pytest.mark.parametrize(
    ("shuffling", "seeds"), [("seeded", [42, 43, 44, 45]), ("summed", [42, 43, 45, 48]), ("zero", [0, 0, 0, 0])]
)
def test_older_releases_seeded_an_epoch_otherwise(shuffling: str, seeds: list[int]) -> None:
    orders = [epoch_order(10, sampling="random", seed=42, epoch=e, shuffling=shuffling).tolist() for e in range(4)]
    assert orders == [randperm(10, seed).tolist() for seed in seeds]
    one_by_one = itertools.islice(epoch_orders(10, sampling="random", seed=42, shuffling=shuffling), 4)
    assert [order.tolist() for order in one_by_one] == orders


def test_an_order_that_nobody_seeded_is_drawn_from_torch_s_generator() -> None:
    # DataLoader(sampler=RandomSampler(rows)), twice, behind torch.manual_seed(42)
    orders = [epoch_order(10, sampling="random", seed=42, epoch=e, shuffling="drawn").tolist() for e in (0, 1)]
    assert orders == [[8, 0, 9, 1, 4, 5, 6, 3, 2, 7], [4, 6, 9, 3, 7, 5, 2, 0, 1, 8]]


def test_an_unknown_shuffling_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one of 'seeded'"):
        epoch_order(4, sampling="random", seed=0, epoch=0, shuffling="dealt")


# As accelerate's prepare_data_loader ordered rows on one and two processes.
@pytest.mark.parametrize(
    ("transformers", "accelerate", "one", "two"),
    [
        ("4.31.0", "0.21.0", "drawn", "shared"),
        ("4.34.1", "0.23.0", "drawn", "shared"),
        ("4.35.2", "0.24.1", "drawn", "zero"),
        ("4.36.2", "0.25.0", "summed", "summed"),
        ("4.37.2", "0.26.1", "drawn", "drawn"),
        ("4.37.2", "0.30.1", "drawn", "shared"),
        ("4.38.2", "0.26.1", "summed", "summed"),
        ("4.38.2", "0.27.2", "seeded", "drawn"),
        ("4.39.3", "0.29.0", "seeded", "seeded"),
        ("5.12.1", "1.15.0", "seeded", "seeded"),
    ],
)
def test_releases_order_rows_in_five_ways(transformers: str, accelerate: str, one: str, two: str) -> None:
    assert [shuffling_of(transformers, accelerate, processes) for processes in (1, 2)] == [one, two]


@pytest.mark.parametrize(("transformers", "seed"), [("4.45.2", 3), ("4.46.0", 5)])
def test_data_seed_counts_from_the_release_that_reads_it(transformers: str, seed: int) -> None:
    assert seed_of(release(None, transformers), 3, 5) == seed
    assert seed_of(release(None, transformers), 3, None) == 3
