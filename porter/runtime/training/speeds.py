"""Seconds, rows and steps by the second, under transformers' names and rounded as it does (`speed_metrics`).

They are this machine's seconds; what is counted by them is what the GPU run's Trainer counts.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from ..batches.evaluation_sets import EvaluationSets


def speeds(
    prefix: str, seconds: float, *, samples: float | None = None, steps: float | None = None
) -> dict[str, float]:
    """`train_runtime`, `train_samples_per_second`, `train_steps_per_second`; without what isn't known."""
    found = {f"{prefix}_runtime": round(seconds, 4)}
    for name, count in (("samples", samples), ("steps", steps)):
        if count is not None and seconds > 0:
            found[f"{prefix}_{name}_per_second"] = round(count / seconds, 3)
    return found


def of_evaluation(batches: Any, seconds: float, prefix: str) -> dict[str, float]:
    """Of an evaluation: its rows, and the GPU run's batches, where its batches know them."""
    rows, steps = (getattr(batches, name, None) for name in ("rows", "gpu_batches"))
    return speeds(prefix, seconds, samples=rows, steps=steps)


def of_training(batches: Any, seconds: float, steps: int) -> dict[str, float]:
    """Of a whole training of `steps`, also of one that was resumed, as the Trainer counts."""
    return speeds("train", seconds, samples=_trained_rows(batches), steps=steps)


def _trained_rows(batches: Any) -> float | None:
    if (rows := getattr(batches, "trained_rows", None)) is not None or not hasattr(batches, "rows"):
        return rows
    return float(batches.rows * batches.steps / batches.steps_per_epoch)


class StepClock:
    """TRL's `step_time`: seconds of an optimizer step, sampling included, evaluations not."""

    def begin(self) -> None:
        """Steps are timed from now on."""
        self._since = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """So many were no step's."""
        self._since += seconds

    def mean(self, steps: int) -> float:
        """Over the last `steps`; the next ones are timed from now on."""
        seconds = time.perf_counter() - self._since
        self.begin()
        return seconds / steps


def note_data() -> None:
    """Let PeftTrainer, and what derives from it, keep what it is given to train on and to evaluate, for its hooks."""
    from tunix.sft.peft_trainer import PeftTrainer

    upstream = PeftTrainer.train
    if getattr(upstream, "notes_data", False):
        return

    @functools.wraps(upstream)
    def train(self: Any, train_ds: Any, eval_ds: Any = None, *args: Any, **kwargs: Any) -> None:
        self.trains_on, self.evaluates_on = train_ds, eval_ds
        upstream(self, train_ds, eval_ds, *args, **kwargs)

    train.notes_data = True  # type: ignore[attr-defined]
    PeftTrainer.train = train


def evaluated(trainer: Any) -> Any:
    """The batches of the set that a trainer is evaluating."""
    batches = getattr(trainer, "evaluates_on", None)
    if isinstance(batches, EvaluationSets):
        return dict(batches.items()).get(trainer.evaluating.removeprefix("eval_"))
    return batches
