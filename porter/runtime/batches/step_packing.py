"""The rows of one optimizer step packed into few micro-batches, none of which is mostly padding.

Exact, where packing across steps (SFTConfig's `packing`) is another training run: a step keeps its rows, each keeps its
own positions and sees itself alone, and the step's loss is a sum over its tokens, in whatever rows they stand.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from functools import cache

Shape = tuple[int, int]
Bins = list[list[int]]

# Tokens of a row whose attention costs as much as all the rest: 17,000 for Gemma 4 31B under XLA:TPU (docs/plan.md).
ATTENTION = 16_384
MANY = 500  # combinations of shapes that are tried for a step before only pairs of shapes are


def packed(lengths: Sequence[int], shapes: Sequence[Shape], micro_batches: int) -> list[tuple[Shape, Bins]] | None:
    """The cheapest `micro_batches` shapes that hold rows of these lengths, and which rows stand where.

    `shapes`: (rows, tokens) that a micro-batch may have. The result has a shape and its rows, each a list of places in
    `lengths`, for every micro-batch; None when no combination holds them.
    """
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    total, longest = sum(lengths), max(lengths, default=0)
    for tokens, chosen in _combinations(tuple(shapes), micro_batches):
        if tokens >= total and chosen[0][1] >= longest:
            found = _fitted(lengths, order, chosen)
            if found is not None:
                return found
    return None


def fewest_micro_batches(steps: Iterable[Sequence[int]], shapes: Sequence[Shape], most: int = 64) -> int:
    """How many micro-batches of these shapes hold every step; `steps` gives the lengths of each one's rows.

    ValueError when a row is longer than every shape, or a step needs more than `most`.
    """
    count = 1
    largest = max(tokens for _, tokens in shapes)
    for lengths in steps:
        if max(lengths, default=0) > largest:
            raise ValueError(
                f"step_packing: a row of {max(lengths)} tokens is longer than every shape in {list(shapes)}"
            )
        while packed(lengths, shapes, count) is None:
            count += 1
            if count > most:
                raise ValueError(f"step_packing: a step of {sum(lengths)} tokens needs over {most} of {list(shapes)}")
    return count


@cache
def _combinations(shapes: tuple[Shape, ...], count: int) -> list[tuple[int, tuple[Shape, ...]]]:
    """`count` shapes each, the longest rows first, by cost, with their tokens."""
    ordered = sorted(set(shapes), key=lambda shape: (-shape[1], -shape[0]))
    found = set(itertools.islice(itertools.combinations_with_replacement(ordered, count), MANY + 1))
    if len(found) > MANY:
        pairs = itertools.combinations_with_replacement(ordered, 2)
        found = {(*[first] * n, *[second] * (count - n)) for first, second in pairs for n in range(count + 1)}
    costs = sorted((sum(b * t * (ATTENTION + t) for b, t in chosen), chosen) for chosen in found)
    return [(sum(b * t for b, t in chosen), chosen) for _, chosen in costs]


def _fitted(lengths: Sequence[int], order: Sequence[int], chosen: Sequence[Shape]) -> list[tuple[Shape, Bins]] | None:
    """Best fit, the longest row first: each goes where it leaves the least space."""
    made: list[tuple[Shape, Bins]] = [(shape, [[] for _ in range(shape[0])]) for shape in chosen]
    spaces = sorted((tokens, number, row) for number, ((rows, tokens), _) in enumerate(made) for row in range(rows))
    for place in order:
        best = bisect_left(spaces, (lengths[place], -1, -1))
        if best == len(spaces):
            return None
        space, number, row = spaces.pop(best)
        made[number][1][row].append(place)
        insort(spaces, (space - lengths[place], number, row))
    return made
