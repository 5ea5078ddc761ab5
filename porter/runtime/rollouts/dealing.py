"""How the completions of a generation batch are dealt to the micro-steps that train them, by TRL's release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Row = TypeVar("Row")
DEALINGS = ("shuffled", "split", "in_order")


def checked(dealing: str) -> str:
    """`dealing` itself; ValueError where it is none of DEALINGS."""
    if dealing not in DEALINGS:
        raise ValueError(f"dealing={dealing!r}: choose one of {', '.join(DEALINGS)}")
    return dealing


def mixed(count: int, seed: int, number: int) -> np.ndarray:
    """The order in which a process deals the `count` completions of generation batch `number` to its micro-steps."""
    return np.random.default_rng((seed, number)).permutation(count)


def dealt(rows: Sequence[Row], size: int, orders: Sequence[np.ndarray], dealing: str) -> list[list[Row]]:
    """`rows` in micro-steps of `size`, each with the rows of its processes one behind the other.

    `shuffled`: each process has a share of the rows, which it cuts in the order of `orders`. `split` (TRL 0.17): it
    cuts them as they come. `in_order` (before): micro-steps are sampled one by one, each for all processes; the last
    one may be smaller.
    """
    if dealing == "in_order":
        return [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    parts, share = len(rows) // size, len(rows) // len(orders)
    found: list[list[Row]] = [[] for _ in range(parts)]
    for process, order in enumerate(orders):
        places = process * share + (np.arange(share) if dealing == "split" else order)
        for part, picked in zip(found, places.reshape(parts, share // parts), strict=True):
            part += [rows[place] for place in picked]
    return found
