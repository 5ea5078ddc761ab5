"""Optimizer steps between two events: `save_steps`, `eval_steps` and `logging_steps` when a script runs."""

from __future__ import annotations

import math


def interval(steps: float | None, total: int) -> int:
    """Optimizer steps between two events of a run of `total`, as transformers reads `save_steps` and its like.

    A number below 1 is a share of the run, rounded up. With 0 and less none is due before the last step. ValueError for
    None, with which transformers' arguments end.
    """
    if steps is None:
        raise ValueError("save_steps, eval_steps or logging_steps is None: give a number of steps, or a share of them")
    if steps <= 0:
        return total
    return math.ceil(steps * total) if steps < 1 else int(steps)
