"""Which prompts the micro-steps of every optimizer step train: TRL's sampler, and how transformers counts its steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..batches import order

TRAINED, COUNTED, LEFT_OUT = LEFTOVERS = ("trained", "counted", "left_out")

# Of a micro-step: the number of its generation batch, the prompts of that, and which part of it the micro-step trains.
MicroStep = tuple[int, Sequence[int], int]


@dataclass(frozen=True)
class PromptOrder:
    """The micro-steps of `steps` optimizer steps over `prompts` prompts, of each `generations` completions.

    `rows` are the completions of a micro-step over all processes, `parts` the micro-steps of a generation batch, which
    are trained `iterations` times; `accumulation` micro-steps make an optimizer step. `leftovers` says what becomes of
    an epoch's last prompts that fill no generation batch: they are `left_out`; they are, too, but `counted` among the
    epoch's steps (TRL 0.16 to 0.19 under transformers 4.52 and later), so that a run of epochs ends before its
    `steps`; or they are `trained`, in micro-steps that are sampled one by one (before 0.16): a smaller last one, or of
    several processes one that begins the epoch's prompts anew.
    """

    prompts: int
    generations: int
    rows: int
    accumulation: int
    parts: int
    iterations: int
    several: bool
    leftovers: str
    epochs: float
    max_steps: int

    def __post_init__(self) -> None:
        if self.leftovers not in LEFTOVERS:
            raise ValueError(f"leftovers={self.leftovers!r}: choose one of {', '.join(LEFTOVERS)}")
        if not self.prompts // self.at_once and self.leftovers != TRAINED:
            raise ValueError(
                f"{self.prompts} prompts don't fill a generation batch of {self.at_once} prompts x "
                f"{self.generations} completions"
            )

    @property
    def at_once(self) -> int:
        """Prompts of a generation batch."""
        return self.rows * self.parts // self.generations

    @property
    def micro_steps(self) -> int:
        """Micro-steps of an epoch."""
        if self.leftovers == TRAINED:
            return math.ceil(self.prompts * self.generations / self.rows)
        return self.prompts // self.at_once * self.parts * self.iterations

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return math.ceil(self.micro_steps / self.accumulation)

    @property
    def counted(self) -> int:
        """Optimizer steps of an epoch, as transformers counts them."""
        if self.leftovers == TRAINED:  # transformers before 4.52 rounds down
            return max(self.micro_steps // self.accumulation, 1)
        if self.leftovers == COUNTED:
            micro = math.ceil(self.prompts * self.generations * self.iterations / self.rows)
            return math.ceil(micro / self.accumulation)
        return self.steps_per_epoch

    @property
    def steps(self) -> int:
        return self.max_steps if self.max_steps > 0 else math.ceil(self.epochs * self.counted)

    @property
    def passes(self) -> int:
        """How often the prompts are passed over at most."""
        return math.ceil(self.max_steps / self.counted) if self.max_steps > 0 else math.ceil(self.epochs)

    @property
    def lasts(self) -> int:
        """Optimizer steps for which the prompts last, at most `steps`."""
        return min(self.steps, self.passes * self.steps_per_epoch)

    def groups(self, seed: int | None) -> Iterator[list[MicroStep]]:
        """The micro-steps of every optimizer step; `seed` of the order, None for the prompts' own."""
        orders = itertools.repeat(np.arange(self.prompts)) if seed is None else order.randperms(self.prompts, seed)
        number, done = 0, 0
        for epoch in itertools.islice(orders, self.passes):
            micro: list[MicroStep] = []
            for chunk in self._chunks(epoch.tolist()):
                parts = range(math.ceil(len(chunk) * self.generations / self.rows))
                micro += [(number, chunk, part) for part in [*parts] * self.iterations]
                number += 1
            for start in range(0, len(micro), self.accumulation):
                if done == self.steps:
                    return
                done += 1
                yield micro[start : start + self.accumulation]

    def _chunks(self, epoch: list[int]) -> Iterator[list[int]]:
        """The prompts of each generation batch."""
        of_step = self.rows // self.generations
        if self.leftovers == TRAINED and self.several and (rest := len(epoch) % of_step):
            epoch = epoch + list(itertools.islice(itertools.cycle(epoch), of_step - rest))
        end = len(epoch) if self.leftovers == TRAINED else len(epoch) // self.at_once * self.at_once
        for start in range(0, end, self.at_once):
            yield epoch[start : start + self.at_once]
