"""The order in which the GPU run reads its rows, without torch.

The Trainer draws each epoch's order with `torch.randperm` from a generator seeded seed + epoch
(accelerate's `SeedableRandomSampler`), cuts it into batches and deals these to the processes
(accelerate's `BatchSamplerShard`). Both are integers only, so NumPy gives the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SAMPLINGS = ("random", "sequential", "group_by_length")
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


def epoch_order(
    n: int, *, sampling: str, seed: int, epoch: int, lengths: Sequence[int] | np.ndarray | None = None, group: int = 1
) -> np.ndarray:
    """Row numbers of one epoch, shape (n,). `sampling` is the Trainer's `train_sampling_strategy`.

    With "group_by_length": `lengths` (n,) are the rows' tokens, `group` the rows of an optimizer step of one process.
    """
    if sampling == "sequential":
        return np.arange(n, dtype=np.int64)
    if sampling == "random":
        return randperm(n, seed + epoch)
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
    n = len(sizes)
    size = group * (min(n // (4 * group), MEGA_BATCHES) or 1)
    for drawn in randperms(n, seed, skipped=2):
        parts = [drawn[start : start + size] for start in range(0, n, size)]
        parts = [part[np.argsort(-sizes[part], kind="stable")] for part in parts]
        longest = int(np.argmax([sizes[part[0]] for part in parts]))
        parts[0][0], parts[longest][0] = parts[longest][0], parts[0][0]  # the longest row of all first
        yield np.concatenate(parts)


def sampling_of(training_args: Any) -> str:
    """The order that a TrainingArguments asks for, by `train_sampling_strategy` or the older `group_by_length`."""
    asked: str = getattr(training_args, "train_sampling_strategy", "random")
    return "group_by_length" if getattr(training_args, "group_by_length", False) else asked


def epoch_orders(
    n: int, *, sampling: str, seed: int, lengths: Sequence[int] | np.ndarray | None = None, group: int = 1
) -> Iterator[np.ndarray]:
    """`epoch_order` of one epoch after the other."""
    if sampling == "group_by_length" and lengths is not None:
        return grouped(lengths, group, seed)
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
