"""When checkpoints are saved: transformers before 4.42 saved none at the end of training unless one was due."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

from orbax.checkpoint.checkpoint_managers import FixedIntervalPolicy
from tunix.sft.peft_trainer import PeftTrainer

from ..facts.releases import release
from ..settings.intervals import interval


@dataclass
class SaveOnlyEvery(FixedIntervalPolicy):
    """Orbax's policy to save every `interval` steps, and not the last step besides, which Tunix does on its own.

    An interval below 1 is a share of the run's steps, `of`; with 0 and less nothing is saved.
    """

    interval: int
    of: int | None = None

    def __post_init__(self) -> None:
        if self.interval <= 0:
            self.interval = sys.maxsize
        elif self.interval < 1:
            if self.of is None:
                raise ValueError(f"SaveOnlyEvery({self.interval}): a share needs the run's steps, of=")
            self.interval = interval(self.interval, self.of)
        _let_the_last_go()


def save_policy(every: int, transformers: str | None, strategy: str = "steps") -> FixedIntervalPolicy:
    """The policy that saves at the steps at which that release of transformers did; the newest where it is None.

    Every 0 steps none is due but the last, as there.
    """
    every = every if every > 0 else sys.maxsize
    older = strategy == "steps" and not release(None, transformers).saves_last
    return SaveOnlyEvery(every) if older else FixedIntervalPolicy(every)


@functools.cache
def _let_the_last_go() -> None:
    save = PeftTrainer._save_last_checkpoint

    @functools.wraps(save)
    def only_where_due(self: Any) -> None:
        policy = getattr(self.config.checkpointing_options, "save_decision_policy", None)
        if not isinstance(policy, SaveOnlyEvery):
            save(self)

    PeftTrainer._save_last_checkpoint = only_where_due
