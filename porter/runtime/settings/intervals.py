"""Optimizer steps between two events: `save_steps`, `eval_steps` and `logging_steps` when a script runs."""

from __future__ import annotations

import math
from typing import Self


class EveryAndLast(int):
    """Optimizer steps between two events, of which the run's last step has one, too: `step % it` is 0 there.

    Tunix and `rt.log_every` ask whether `step % steps == 0`.
    """

    last: int

    def __new__(cls, every: int, last: int) -> Self:
        made = super().__new__(cls, every)
        made.last = last
        return made

    def __rmod__(self, step: int) -> int:
        return 0 if step == self.last else int(step) % int(self)


def interval(steps: float | None, total: int, *, last: bool = False) -> int:
    """Optimizer steps between two events of a run of `total`, as transformers reads `save_steps` and its like.

    A number below 1 is a share of the run, rounded up. With 0 and less none is due before the last step. `last`: the
    run's last step has one even where none is due, as the end of an epoch that `max_steps` cuts off, and with
    eval_steps since transformers 5.4. ValueError for None, with which transformers' arguments end.
    """
    if steps is None:
        raise ValueError("save_steps, eval_steps or logging_steps is None: give a number of steps, or a share of them")
    if steps <= 0:
        return total
    every = math.ceil(steps * total) if steps < 1 else int(steps)
    return EveryAndLast(every, total) if last else every
