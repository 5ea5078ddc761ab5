"""The optimizer steps of the GPU run: which rows each reads, and what a token of each row counts in its loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from . import accumulation as older
from . import order
from .releases import Release
from .rows import Rows


class Deal:
    """How the rows of an epoch are dealt: to micro-batches of all processes, and these to optimizer steps.

    `batch_size` counts the rows of one micro-batch over all `processes`, `accumulation` the micro-batches of a step.
    """

    def __init__(
        self, *, batch_size: int, accumulation: int, processes: int, drop_last: bool, release: Release
    ) -> None:
        if batch_size % processes:
            raise ValueError(f"batch_size={batch_size} rows can't be dealt evenly to {processes} processes")
        self.batch_size = batch_size
        self.accumulation = accumulation
        self.processes = processes
        self.release = release
        self._drop_last = drop_last

    def batches(self, rows: np.ndarray, batch_size: int | None = None) -> list[np.ndarray]:
        """The rows of every micro-batch of an epoch, in rank order."""
        return order.micro_batches(rows, batch_size or self.batch_size, self.processes, self._drop_last)

    def steps(self, epoch_rows: int, *, full: bool = False) -> int:
        """Optimizer steps of an epoch; a short last group is a step too, unless only full ones count."""
        steps, rest = divmod(len(self.batches(np.arange(epoch_rows))), self.accumulation)
        return steps + (rest > 0 and not full)


class Steps:
    """All optimizer steps of a run over `rows`; iterating gives (rows, share) of each, both of shape (rows,).

    `share` is what a token's loss counts in the step's, so that the sum over the step is what the Trainer trains on.
    `count`: how many steps there are, `per_epoch` of an epoch, `largest` the micro-batches of the largest.
    """

    def __init__(
        self,
        rows: Rows,
        deal: Deal,
        *,
        epochs: float,
        max_steps: int,
        seed: int,
        sampling: str = "random",
        tokens_of_all: bool = True,
    ) -> None:
        self._rows = rows
        self._deal = deal
        self._order = functools.partial(order.epoch_order, len(rows), sampling=sampling, seed=seed)
        self._together = tokens_of_all or deal.processes == 1
        self._today = deal.release.rounds_steps_up
        epoch_rows = len(rows) if rows.epochs is None else len(rows.epochs[0])
        made = deal.steps(epoch_rows)
        if not made:
            raise ValueError(
                f"{len(rows)} rows don't fill one batch of {deal.batch_size}, and drop_last drops a short one"
            )
        self.per_epoch = made if self._today else max(deal.steps(epoch_rows, full=True), 1)
        self.count = max_steps if max_steps > 0 else math.ceil(epochs * self.per_epoch)
        self.largest = deal.accumulation
        if not self._today:
            self.largest = max(sum(len(group.batches) for group in groups) for groups in self._groups())

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return self._steps() if self._today else self._older_steps()

    def _steps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = epoch = 0
        accumulation = self._deal.accumulation
        while self._rows.epochs is None or epoch < len(self._rows.epochs):
            dealt = self._batches(epoch)
            for start in range(0, len(dealt), accumulation):
                if done == self.count:
                    return
                group = dealt[start : start + accumulation]
                if self._rows.epochs is not None and len(group) < accumulation:
                    continue  # the end of a stream makes no step; HF adds its gradients to the next pass's first
                done += 1
                yield np.concatenate(group), self._share(group, group, self._together)
            epoch += 1

    def _older_steps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As transformers before 4.52 made them; before 4.46 every process took the mean of each micro-batch alone."""
        by_token = self._deal.release.counts_tokens
        weight = 1.0 if by_token else 1 / self._deal.accumulation
        together = self._together and (by_token or self._deal.processes == 1)
        for groups in self._groups():
            rows, shares = [], []
            for group in groups:
                batches, over = ([self._batches(at)[number] for at, number in part] for part in group)
                rows += batches
                shares.append(weight * self._share(batches, over, together))
            yield np.concatenate(rows), np.concatenate(shares)

    def _groups(self) -> Iterator[list[older.Group]]:
        return older.older_steps(
            lambda epoch: len(self._batches(epoch)),
            self._deal.accumulation,
            steps=self.count,
            rows=len(self._rows),
            transformers=self._deal.release.transformers,
            streamed=self._rows.epochs is not None,
        )

    @functools.lru_cache(maxsize=2)  # noqa: B019 - a step reads two epochs at most, and the object lives as long as the run
    def _batches(self, epoch: int) -> list[np.ndarray]:
        passes = self._rows.epochs
        return self._deal.batches(self._order(epoch=epoch) if passes is None else passes[epoch])

    def _share(self, group: list[np.ndarray], over: list[np.ndarray], together: bool) -> np.ndarray:
        """What a token of each row of `group` counts when the loss is a mean over the tokens of `over`.

        Each process takes its own mean, and these are averaged, unless they count `together`.
        """
        processes = 1 if together else self._deal.processes
        trained = self._rows.trained[np.concatenate(over)]
        if self._deal.release.counts_firsts:
            trained = trained + self._rows.firsts[np.concatenate(over)]
        totals = np.bincount(self._ranks(over, processes), weights=trained, minlength=processes)
        return 1 / (processes * np.maximum(totals, 1.0)[self._ranks(group, processes)])

    def _ranks(self, group: list[np.ndarray], processes: int) -> np.ndarray:
        return np.concatenate([np.arange(len(batch)) * processes // self._deal.batch_size for batch in group])
