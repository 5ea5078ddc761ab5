"""When checkpoints are saved: transformers before 4.42 saved none at the end of training unless one was due."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from orbax.checkpoint.checkpoint_managers import FixedIntervalPolicy
from tunix.sft.peft_trainer import PeftTrainer

from ..facts.releases import release


@dataclass
class SaveOnlyEvery(FixedIntervalPolicy):
    """Orbax's policy to save every `interval` steps, and not the last step besides, which Tunix does on its own."""

    def __post_init__(self) -> None:
        _let_the_last_go()


def save_policy(interval: int, transformers: str | None, strategy: str = "steps") -> FixedIntervalPolicy:
    """The policy that saves at the steps at which that release of transformers did; the newest where it is None."""
    older = strategy == "steps" and not release(None, transformers).saves_last
    return SaveOnlyEvery(interval) if older else FixedIntervalPolicy(interval)


@functools.cache
def _let_the_last_go() -> None:
    save = PeftTrainer._save_last_checkpoint

    @functools.wraps(save)
    def only_where_due(self: Any) -> None:
        policy = getattr(self.config.checkpointing_options, "save_decision_policy", None)
        if not isinstance(policy, SaveOnlyEvery):
            save(self)

    PeftTrainer._save_last_checkpoint = only_where_due
