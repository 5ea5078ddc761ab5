"""Which micro-batches made an optimizer step before transformers 4.52, and what each of them counted.

Until then the Trainer planned `batches // accumulation` steps an epoch, and stopped at that many whatever was left.
Before 4.46 a step's loss was the mean over its micro-batches of each one's own mean; from 4.46 on it is a mean over the
tokens of the micro-batches that were read together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..facts.field_tables import version_key

Batch = tuple[int, int]
"""A micro-batch of the GPU run: its epoch and its number in it."""


class Group(NamedTuple):
    """Micro-batches of one step, `batches`, and those whose tokens their loss was divided by, `over`."""

    batches: list[Batch]
    over: list[Batch]


def older_steps(
    batches_of: Callable[[int], int],
    accumulation: int,
    *,
    steps: int,
    rows: int,
    transformers: str,
    streamed: bool = False,
) -> Iterator[list[Group]]:
    """The groups of micro-batches of each of `steps` optimizer steps, as transformers before 4.52 made them.

    `batches_of` gives the micro-batches of an epoch, `rows` are the dataset's. Micro-batches that fill no step run into
    the next epoch's first, but in 4.47 to 4.51, where an epoch's last micro-batch ends a step. From 4.46 on the last
    group of an epoch takes `rows % accumulation` micro-batches, which may leave some unread.
    """
    release = version_key(transformers)
    by_token = release >= (4, 46, 0)
    pending: list[Group] = []
    done = seen = 0
    for epoch in itertools.count():
        batches, before = batches_of(epoch), done
        for numbers in _groups(batches, accumulation, rows) if by_token else _singly(batches):
            over = [(epoch, number) for number in numbers]
            pending.append(Group([], over))
            for number in numbers:
                seen += 1
                pending[-1].batches.append((epoch, number))
                last = number + 1 == batches and not streamed
                if release >= (4, 47, 0):
                    ends = last or (number + 1) % accumulation == 0
                else:
                    ends = seen % accumulation == 0 or (last and batches <= accumulation)
                if ends:
                    yield [group for group in pending if group.batches]
                    pending = [Group([], over)]
                    done += 1
                    if done == steps:
                        return
        if done == before and release >= (4, 47, 0) and not streamed:
            raise ValueError(
                f"the GPU run trains nothing: of {rows} rows in {batches} micro-batches transformers {transformers} "
                f"reads {rows % accumulation or accumulation} an epoch, which is no step of {accumulation}. Take "
                "another number of rows, or name a release from 4.52 on"
            )


Part = tuple[list[np.ndarray], list[np.ndarray]]
"""The rows of micro-batches of one step, and of those whose tokens their loss was divided by."""


def older_parts(
    epochs: Iterator[list[np.ndarray]], accumulation: int, *, steps: int, rows: int, transformers: str
) -> Iterator[list[Part]]:
    """The parts of each of `steps` steps; `epochs` gives the micro-batches of one after another."""
    held: dict[int, list[np.ndarray]] = {}

    def batches(epoch: int) -> list[np.ndarray]:
        while epoch not in held:
            held[len(held)] = next(epochs)
        return held[epoch]

    made = older_steps(
        lambda epoch: len(batches(epoch)), accumulation, steps=steps, rows=rows, transformers=transformers
    )

    def rows_of(places: list[Batch]) -> list[np.ndarray]:
        return [batches(at)[number] for at, number in places]

    return ([(rows_of(group.batches), rows_of(group.over)) for group in step] for step in made)


def older_groups(
    epochs: Iterator[list[np.ndarray]], accumulation: int, *, steps: int, rows: int, transformers: str
) -> Iterator[list[np.ndarray]]:
    """The rows of the micro-batches of each of `steps` steps."""
    parts = older_parts(epochs, accumulation, steps=steps, rows=rows, transformers=transformers)
    return ([batch for batches, _ in step for batch in batches] for step in parts)


def _groups(batches: int, accumulation: int, rows: int) -> Iterator[range]:
    """The micro-batches that are read together: `accumulation` of them, an epoch's last group as many as remain."""
    updates = batches // accumulation + 1
    start = 0
    for update in range(updates):
        size = accumulation if update < updates - 1 else rows % accumulation or accumulation
        yield range(start, min(start + size, batches))
        start += size


def _singly(batches: int) -> Iterator[range]:
    for number in range(batches):
        yield range(number, number + 1)
