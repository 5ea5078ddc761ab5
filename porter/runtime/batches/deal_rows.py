"""How the GPU run deals the rows of its epochs: to micro-steps of all processes, and these to optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from . import order


class Deal:
    """`batch_size` counts the rows of one micro-step over all `processes`, `accumulation` the micro-steps of a step.

    ValueError for rows that can't be dealt evenly to the processes.
    """

    def __init__(self, *, batch_size: int, accumulation: int, processes: int, drop_last: bool) -> None:
        if batch_size % processes:
            raise ValueError(f"batch_size={batch_size} rows can't be dealt evenly to {processes} processes")
        self.batch_size = batch_size
        self.accumulation = accumulation
        self.processes = processes
        self._drop_last = drop_last

    @property
    def step_rows(self) -> int:
        """Rows of a full optimizer step."""
        return self.batch_size * self.accumulation

    def trained_rows(self, rows: int, epochs: float, max_steps: int) -> float:
        """What the Trainer counts as the samples of a run: full steps where it is told how many, else its epochs."""
        return max_steps * self.step_rows if max_steps > 0 else rows * epochs

    def batches(self, rows: np.ndarray, batch_size: int | None = None) -> list[np.ndarray]:
        """The rows of every micro-step of an epoch, in rank order."""
        return order.micro_batches(rows, batch_size or self.batch_size, self.processes, self._drop_last)

    def count(self, epoch_rows: int) -> int:
        """Micro-steps of an epoch: the batches that each process takes of it."""
        return len(self.batches(np.arange(epoch_rows)))

    def steps(self, epoch_rows: int, *, full: bool = False) -> int:
        """Optimizer steps of an epoch; a short last group is a step too, unless only `full` ones count."""
        steps, rest = divmod(self.count(epoch_rows), self.accumulation)
        return steps + (rest > 0 and not full)

    def check(self, rows: int, steps: int) -> None:
        """ValueError when an epoch of `rows` makes no step."""
        if not steps:
            raise ValueError(f"{rows} rows don't fill one batch of {self.batch_size}, and drop_last drops a short one")

    def kept(self, rows: int, dealt: list[np.ndarray]) -> int | None:
        """Of the last of the `dealt` batches of `rows` evaluation rows, how many count; None for all of them.

        accelerate repeats rows to fill the processes up, and `gather_for_metrics` takes them off again.
        """
        rest = rows % len(dealt[0]) if dealt else 0
        return rest or None if not self._drop_last else None

    def groups(self, epochs: Iterable[np.ndarray], *, full: bool = False) -> Iterator[list[np.ndarray]]:
        """The micro-steps of each optimizer step, epoch after epoch; `full` as for `steps`.

        `epochs`: row numbers of each. Of a stream's passes only full steps count: HF adds the gradients of a pass's end
        to the first step of the next.
        """
        for epoch in epochs:
            dealt = self.batches(epoch)
            for start in range(0, len(dealt), self.accumulation):
                group = dealt[start : start + self.accumulation]
                if not full or len(group) == self.accumulation:
                    yield group
