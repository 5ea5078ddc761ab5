"""The order in which the GPU run reads its rows, without torch.

The Trainer draws each epoch's order with `torch.randperm` from a generator seeded seed + epoch
(accelerate's `SeedableRandomSampler`), cuts it into batches and deals these to the processes
(accelerate's `BatchSamplerShard`). Both are integers only, so NumPy gives the same numbers.

Releases of before transformers 4.38 and accelerate 0.29 seeded otherwise; a run's way is its `shuffling`:

- `seeded`: seed + epoch.
- `drawn`: with a number that torch's global generator gives when an epoch begins. `set_seed(seed)` seeds that one when
  the Trainer is made; whatever draws from it since (an evaluation, a script) makes other orders.
- `summed`: seed, seed + 1, seed + 3, seed + 6 (accelerate 0.25; 0.26 where it was asked to seed).
- `zero`: 0 in every epoch, whatever the seed (accelerate 0.24, several processes).
- `shared`: one generator for all epochs with torch's own seed, whatever the script's (accelerate to 0.23, several
  processes).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..facts.releases import Release

SAMPLINGS = ("random", "sequential", "group_by_length")
SHUFFLINGS = ("seeded", "drawn", "summed", "zero", "shared")
TORCHS_OWN_SEED = 67280421310721  # of a torch.Generator that nobody seeded
MEGA_BATCHES = 50  # of how many batches rows of like length are looked for, at most


def randperm(n: int, seed: int) -> np.ndarray:
    """`torch.randperm(n)` of a CPU generator with `manual_seed(seed)`: int64, shape (n,).

    torch seeds MT19937 with the low 32 bits and shuffles from the front, one 32-bit draw modulo what is
    left at each place (ATen's `randperm_cpu`). From n = 2**32 / 20 it draws 64 bits: ValueError here.
    """
    return next(randperms(n, seed))


def randperms(n: int, seed: int, skipped: int = 0) -> Iterator[np.ndarray]:
    """One `torch.randperm(n)` after the other, of the same generator; `skipped` draws of 32 bits before each."""
    if n >= 2**32 // 20:
        raise ValueError(f"torch orders {n} rows with another generator, from {2**32 // 20} rows on")
    generator = np.random.RandomState(seed & 0xFFFFFFFF)
    while True:
        generator.randint(0, 2**32, size=skipped, dtype=np.uint32)
        draws = generator.randint(0, 2**32, size=max(n - 1, 0), dtype=np.uint32)
        jumps = (draws % np.arange(n, 1, -1)).tolist()
        order = list(range(n))
        for place, jump in enumerate(jumps):
            order[place], order[place + jump] = order[place + jump], order[place]
        yield np.asarray(order, dtype=np.int64)


def shuffled(n: int, seed: int, shuffling: str = "seeded") -> Iterator[np.ndarray]:
    """Random orders of one epoch after the other, each of shape (n,); ValueError for a `shuffling` that isn't one."""
    if shuffling == "drawn":
        return (randperm(n, number) for number in _drawn_seeds(seed))
    if shuffling == "shared":  # RandomSampler draws an order too many, of which it takes no row
        return itertools.islice(randperms(n, TORCHS_OWN_SEED), 0, None, 2)
    if shuffling == "seeded":
        return (randperm(n, number) for number in itertools.count(seed))
    if shuffling == "summed":
        return (randperm(n, number) for number in itertools.accumulate(itertools.count(1), initial=seed))
    if shuffling == "zero":
        return itertools.repeat(randperm(n, 0))
    raise ValueError(f"shuffling={shuffling!r}: expected one of {', '.join(map(repr, SHUFFLINGS))}")


def _drawn_seeds(seed: int) -> Iterator[int]:
    """What RandomSampler seeds its generator with: 64 bits of the global one, of which the low 32 count.

    DataLoader draws 64 before it whenever an iteration begins.
    """
    generator = np.random.RandomState(seed & 0xFFFFFFFF)
    while True:
        yield int(generator.randint(0, 2**32, size=4, dtype=np.uint32)[-1])


def seed_of(release: Release, seed: int, data_seed: int | None, sampling: str = "random") -> int:
    """The seed of the rows' order: `data_seed` where there is one that the release read."""
    read = data_seed is not None and release.reads_data_seed and sampling != "group_by_length"
    return data_seed if read and data_seed is not None else seed


def epoch_order(
    n: int,
    *,
    sampling: str,
    seed: int,
    epoch: int,
    lengths: Sequence[int] | np.ndarray | None = None,
    group: int = 1,
    shuffling: str = "seeded",
) -> np.ndarray:
    """Row numbers of one epoch, shape (n,). `sampling` is the Trainer's `train_sampling_strategy`.

    With "group_by_length": `lengths` (n,) are the rows' tokens, `group` the rows of an optimizer step of one process.
    """
    if sampling == "sequential":
        return np.arange(n, dtype=np.int64)
    if sampling == "random" and shuffling == "seeded":
        return randperm(n, seed + epoch)
    if sampling == "random":
        return next(itertools.islice(shuffled(n, seed, shuffling), epoch, None))
    if sampling == "group_by_length" and lengths is not None:
        return next(itertools.islice(grouped(lengths, group, seed), epoch, None))
    if sampling == "group_by_length":
        raise ValueError("train_sampling_strategy='group_by_length' is for rows of one text, not for pairs or prompts")
    raise ValueError(f"train_sampling_strategy={sampling!r}: expected one of {', '.join(map(repr, SAMPLINGS))}")


def grouped(lengths: Sequence[int] | np.ndarray, group: int, seed: int) -> Iterator[np.ndarray]:
    """The orders of one epoch after the other of transformers' LengthGroupedSampler, each of shape (n,).

    It draws from torch's global generator, which `set_seed(seed)` seeds when the Trainer is made; PyTorch's DataLoader
    draws 64 bits from it whenever an iteration begins. Nothing else draws on a GPU run that doesn't evaluate.
    """
    sizes = np.asarray(lengths)
    return (_by_length(drawn, sizes, group) for drawn in randperms(len(sizes), seed, skipped=2))


def evaluated(lengths: Sequence[int] | np.ndarray, group: int, seed: int, trained: int) -> np.ndarray:
    """The order in which LengthGroupedSampler took an evaluation's rows, (n,), in batches of `group` rows a process.

    Of the first evaluation of a run of `trained` rows, drawn behind the order of its first epoch; later ones are
    grouped alike.
    """
    sizes = np.asarray(lengths)
    return _by_length(next(randperms(len(sizes), seed, skipped=2 + max(trained - 1, 0) + 2)), sizes, group)


def _by_length(drawn: np.ndarray, sizes: np.ndarray, group: int) -> np.ndarray:
    n = len(sizes)
    size = group * (min(n // (4 * group), MEGA_BATCHES) or 1)
    parts = [drawn[start : start + size] for start in range(0, n, size)]
    parts = [part[np.argsort(-sizes[part], kind="stable")] for part in parts]
    longest = int(np.argmax([sizes[part[0]] for part in parts]))
    parts[0][0], parts[longest][0] = parts[longest][0], parts[0][0]  # the longest row of all first
    return np.concatenate(parts)


def sampling_of(training_args: Any) -> str:
    """The order that a TrainingArguments asks for, by `train_sampling_strategy` or the older `group_by_length`."""
    asked: str = getattr(training_args, "train_sampling_strategy", "random")
    return "group_by_length" if getattr(training_args, "group_by_length", False) else asked


def epoch_orders(
    n: int,
    *,
    sampling: str,
    seed: int,
    lengths: Sequence[int] | np.ndarray | None = None,
    group: int = 1,
    shuffling: str = "seeded",
) -> Iterator[np.ndarray]:
    """`epoch_order` of one epoch after the other."""
    if sampling == "group_by_length" and lengths is not None:
        return grouped(lengths, group, seed)
    if sampling == "random":
        return shuffled(n, seed, shuffling)
    return (epoch_order(n, sampling=sampling, seed=seed, epoch=epoch) for epoch in itertools.count())


def micro_batches(
    order: Sequence[int] | np.ndarray, batch_size: int, processes: int, drop_last: bool
) -> list[np.ndarray]:
    """Rows of every micro-step of the whole GPU run, in rank order.

    `batch_size` counts the rows of one micro-step over all `processes`. With one process the last batch may be
    short. With more, accelerate fills it up from the start of the order (`even_batches`), so that some
    rows come twice; `drop_last` drops what doesn't fill a batch on every process.
    """
    if batch_size % processes:
        raise ValueError(f"batch_size={batch_size} rows can't be dealt evenly to {processes} processes")
    order = np.asarray(order)
    n = len(order)
    if drop_last:
        order = order[: n - n % batch_size]
    elif processes > 1 and n:
        order = np.resize(order, -(-n // batch_size) * batch_size)  # np.resize repeats from the start
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
