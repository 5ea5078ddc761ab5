"""The optimizer steps of the GPU run: which rows each reads, and what a token of each row counts in its loss."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..facts.releases import Release
from ..facts.releases.lines import Lines
from ..rows.rows import Rows
from . import accumulation as older
from . import order
from .deal_rows import Deal

FIRSTS = "; padding in front of shorter rows predicts their first token on the GPU, which isn't trained here"


def said_of_untrained(rows: int, *, by_step: bool) -> str:
    """What is said of rows without a trained token; `by_step`: the GPU run's loss is a mean over the whole step."""
    if not rows:
        return ""
    part = "step" if by_step else "micro-batch"
    return (
        f"; {rows} {'row has' if rows == 1 else 'rows have'} no trained token: a {part} of such rows alone has a loss "
        "of NaN on the GPU and of 0 here, without a gradient on both"
    )


class Step(NamedTuple):
    """Of each row of an optimizer step, all (rows,): its number, what a token counts, how long its micro-batch was.

    `shares`: what a token counts in the metrics that the trainer logs, by name, see `metric_shares`.
    """

    rows: np.ndarray
    share: np.ndarray
    widths: np.ndarray
    shares: dict[str, np.ndarray]


class Steps:
    """All optimizer steps of a run over `rows`; iterating gives a `Step` of each.

    `share` is what a token's loss counts in the step's, so that the sum over the step is what the Trainer trains on.
    `micro_batches_apart`: each micro-batch of a process counts its own mean, and the step's loss is their `sum` or
    their `mean`.
    `widths`: how long the GPU run made the micro-batch of each row, which is `width` of its rows' lengths.
    `count`: how many steps there are, `per_epoch` of an epoch, `largest` the micro-batches of the largest; `uneven`:
    an epoch of the GPU run's may have ended within a step, or a step late.
    """

    def __init__(
        self,
        rows: Rows,
        deal: Deal,
        release: Release,
        *,
        epochs: float,
        max_steps: int,
        seed: int,
        sampling: str = "random",
        shuffling: str = "seeded",
        tokens_of_all: bool = True,
        micro_batches_apart: str = "",
        width: Callable[[np.ndarray], int] = np.max,
        lines: Lines | None = None,
    ) -> None:
        self._rows = rows
        self._deal = deal
        self._sampling: dict[str, Any] = {"sampling": sampling, "seed": seed, "shuffling": shuffling}
        if sampling == "group_by_length":
            self._sampling |= {"lengths": rows.lengths, "group": deal.batch_size // deal.processes * deal.accumulation}
        self._together = tokens_of_all or deal.processes == 1
        self._width, self._lines = width, lines
        self._release = release
        self._apart = (
            micro_batches_apart if release.counts_tokens else ""
        )  # before, they were means of their own anyway
        epoch_rows = len(rows) if rows.epochs is None else len(rows.epochs[0])
        made = deal.steps(epoch_rows)
        deal.check(len(rows), made)
        self.per_epoch = made if release.rounds_steps_up else max(deal.steps(epoch_rows, full=True), 1)
        self.uneven = not release.rounds_steps_up and made != deal.steps(epoch_rows, full=True)
        self.count = max_steps if max_steps > 0 else math.ceil(epochs * self.per_epoch)
        self.largest = deal.accumulation
        if not release.rounds_steps_up:
            self.largest = max(sum(len(group.batches) for group in groups) for groups in self._groups())

    def evaluated(self, lengths: np.ndarray, batch_size: int) -> np.ndarray:
        """An evaluation's rows in the order of the GPU run's, (n,); `batch_size` of all its processes."""
        if not self._release.evaluates_by_length or "lengths" not in self._sampling:
            return np.arange(len(lengths))
        group = batch_size // self._deal.processes
        return order.evaluated(lengths, group, self._sampling["seed"], len(self._rows))

    def __iter__(self) -> Iterator[Step]:
        return self._steps() if self._release.rounds_steps_up else self._older_steps()

    def _steps(self) -> Iterator[Step]:
        passes = self._rows.epochs
        epochs = order.epoch_orders(len(self._rows), **self._sampling) if passes is None else passes
        for group in itertools.islice(self._deal.groups(epochs, full=passes is not None), self.count):
            share = self._share(group, group, self._together)
            yield Step(np.concatenate(group), share, self._widths(group), self.metric_shares(group, self._rows))

    def _older_steps(self) -> Iterator[Step]:
        """As transformers before 4.52 made them; before 4.46 every process took the mean of each micro-batch alone."""
        by_token = self._release.counts_tokens
        weight = 1.0 if by_token else 1 / self._deal.accumulation
        together = self._together and (by_token or self._deal.processes == 1)
        for groups in self._groups():
            rows: list[np.ndarray] = []
            shares: list[np.ndarray] = []
            for group in groups:
                batches, over = ([self._batches(at)[number] for at, number in part] for part in group)
                rows += batches
                alone = [([batch], [batch]) for batch in batches]
                for part, whole in [(batches, over)] if by_token else alone:
                    shares.append(weight * self._share(part, whole, together))
            counted = self.metric_shares(rows, self._rows)
            yield Step(np.concatenate(rows), np.concatenate(shares), self._widths(rows), counted)

    def _groups(self) -> Iterator[list[older.Group]]:
        return older.older_steps(
            lambda epoch: len(self._batches(epoch)),
            self._deal.accumulation,
            steps=self.count,
            rows=len(self._rows),
            transformers=self._release.transformers,
            streamed=self._rows.epochs is not None,
        )

    @functools.lru_cache(maxsize=2)  # noqa: B019 - a step reads two epochs at most, and the object lives as long as the run
    def _batches(self, epoch: int) -> list[np.ndarray]:
        passes = self._rows.epochs
        if passes is not None:
            return self._deal.batches(passes[epoch])
        return self._deal.batches(order.epoch_order(len(self._rows), **self._sampling, epoch=epoch))

    def _share(self, group: list[np.ndarray], over: list[np.ndarray], together: bool) -> np.ndarray:
        """What a token of each row of `group` counts when the loss is a mean over the tokens of `over`.

        Each process takes its own mean, and these are averaged, unless they count `together`.
        """
        if self._apart == "mean":
            count = len(group) if self._release.divides_by_made else self._deal.accumulation
            return np.concatenate([self._mean(batch) for batch in group]) / count
        if self._apart:
            factor = self._deal.processes if self._together else 1
            return factor * np.concatenate([self._mean(batch) for batch in group])
        processes = 1 if together else self._deal.processes
        trained = self._rows.trained[np.concatenate(over)]
        if self._release.counts_firsts:
            trained = trained + self._rows.firsts[np.concatenate(over)]
        totals = np.bincount(self._ranks(over, processes), weights=trained, minlength=processes)
        return 1 / (processes * np.maximum(totals, 1.0)[self._ranks(group, processes)])

    def metric_shares(self, group: list[np.ndarray], rows: Rows, batch_size: int = 0) -> dict[str, np.ndarray]:
        """What a token of each of `rows` in `group` counts in the trainer's metrics, means of its micro-batches'.

        `accuracy` and `entropy` are over a micro-batch's trained tokens, `attended_entropy` over those that each
        process feeds; none of what the release doesn't log. `batch_size`: of an evaluation's batch.
        """
        if self._lines is None:
            return {}
        entropy = {"trained": "entropy", "attended": "attended_entropy"}.get(self._lines.entropy)
        names = [*(["accuracy"] if self._lines.accuracy else []), *([entropy] if entropy else [])]
        parts = {
            name: [self._part(batch, rows, name, batch_size or self._deal.batch_size) for batch in group]
            for name in names
        }
        return {name: np.concatenate(found) / len(group) for name, found in parts.items()}

    def _part(self, batch: np.ndarray, rows: Rows, name: str, batch_size: int) -> np.ndarray:
        attended = name == "attended_entropy"
        processes = self._deal.processes if attended else 1
        ranks = np.arange(len(batch)) * processes // batch_size
        totals = np.bincount(ranks, weights=(rows.lengths if attended else rows.trained)[batch], minlength=processes)
        return np.asarray(1 / (processes * np.maximum(totals, 1.0)[ranks]))

    def _widths(self, group: list[np.ndarray]) -> np.ndarray:
        found = []
        for batch in group:
            ranks = self._ranks([batch], self._deal.processes)
            lengths = self._rows.lengths[batch]
            found += [int(self._width(lengths[ranks == rank])) for rank in ranks]
        return np.array(found)

    def _mean(self, batch: np.ndarray) -> np.ndarray:
        """What a token counts in the mean over the processes of each one's own mean of a micro-batch."""
        ranks = self._ranks([batch], self._deal.processes)
        totals = np.bincount(ranks, weights=self._rows.trained[batch], minlength=self._deal.processes)
        return np.asarray(1 / (self._deal.processes * np.maximum(totals, 1.0)[ranks]))

    def _ranks(self, group: list[np.ndarray], processes: int) -> np.ndarray:
        return np.concatenate([np.arange(len(batch)) * processes // self._deal.batch_size for batch in group])

    def untrained(self) -> str:
        """What is said of rows without a trained token. Empty where there is none."""
        none = int(np.sum(self._rows.trained + self._rows.firsts == 0))
        return said_of_untrained(none, by_step=self._release.counts_tokens and not self._apart)

    def firsts_lost(self, tokenizer: Any) -> str:
        """What is said where the GPU run trained the first tokens of shorter rows, which padding in front of them
        predicts, as TRL before 0.16 pads where the tokenizer says so. Empty where it didn't."""
        pads = tokenizer.padding_side == "left" and not (self._release.since(0, 16) or self._release.unsloth)
        together = self._deal.batch_size > self._deal.processes and len(np.unique(self._rows.lengths)) > 1
        return FIRSTS if pads and together and self._rows.firsts.any() else ""
