"""The order in which the GPU run reads its rows, without torch.

The Trainer draws each epoch's order with `torch.randperm` from a generator seeded seed + epoch
(accelerate's `SeedableRandomSampler`), cuts it into batches and deals these to the processes
(accelerate's `BatchSamplerShard`). Both are integers only, so NumPy gives the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

SAMPLINGS = ("random", "sequential")


def randperm(n: int, seed: int) -> np.ndarray:
    """`torch.randperm(n)` of a CPU generator with `manual_seed(seed)`: int64, shape (n,).

    torch seeds MT19937 with the low 32 bits and shuffles from the front, one 32-bit draw modulo what is
    left at each place (ATen's `randperm_cpu`). From n = 2**32 / 20 it draws 64 bits: ValueError here.
    """
    return next(randperms(n, seed))


def randperms(n: int, seed: int) -> Iterator[np.ndarray]:
    """One `torch.randperm(n)` after the other, of the same generator."""
    if n >= 2**32 // 20:
        raise ValueError(f"torch orders {n} rows with another generator, from {2**32 // 20} rows on")
    generator = np.random.RandomState(seed & 0xFFFFFFFF)
    while True:
        draws = generator.randint(0, 2**32, size=max(n - 1, 0), dtype=np.uint32)
        jumps = (draws % np.arange(n, 1, -1)).tolist()
        order = list(range(n))
        for place, jump in enumerate(jumps):
            order[place], order[place + jump] = order[place + jump], order[place]
        yield np.asarray(order, dtype=np.int64)


def epoch_order(n: int, *, sampling: str, seed: int, epoch: int) -> np.ndarray:
    """Row numbers of one epoch, shape (n,). `sampling` is the Trainer's `train_sampling_strategy`."""
    if sampling == "sequential":
        return np.arange(n, dtype=np.int64)
    if sampling == "random":
        return randperm(n, seed + epoch)
    raise ValueError(
        f"train_sampling_strategy={sampling!r} can't be reproduced: torch's global generator decides its order; "
        f"expected one of {', '.join(map(repr, SAMPLINGS))}"
    )


def epoch_orders(n: int, *, sampling: str, seed: int) -> Iterator[np.ndarray]:
    """`epoch_order` of one epoch after the other."""
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
