"""What `Trainer.train()` returns, from what Tunix's trainer keeps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .own_metrics import lines_of
from .speeds import of_training, speeds


@dataclass(frozen=True)
class TrainResult:
    """transformers' TrainOutput. Of its metrics `total_flos` is missing: transformers estimates it from the model."""

    global_step: int
    training_loss: float
    metrics: dict[str, float] = field(default_factory=dict)


def train_result(trainer: Any, batches: Any = None) -> TrainResult:
    """Steps, mean loss and speed of the run that has just ended, as transformers' `Trainer.train()` returns them.

    `training_loss` is the sum over this run's optimizer steps by the number of all steps: of a resumed run the Trainer,
    too, counts those before it and not their losses. It is 0 where nothing was left to train. The seconds are those
    from the run's start until this call, compilation included; rows and epochs are counted by `batches`. Where the
    trainer of the GPU run's release puts its own metrics into the run's last line in place, they are here, too.
    """
    steps = int(trainer.train_steps)
    try:
        losses = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, "loss", "train")
    except KeyError:  # no step has been reported
        losses = ()
    loss = of_all_steps(float(np.sum(losses)), steps)
    metrics = _speed(trainer, batches) | {"train_loss": loss}
    kept = lines_of(trainer)
    if batches is not None and (kept is None or kept.returns_epoch):
        metrics["epoch"] = steps / batches.steps_per_epoch
    if kept is not None and kept.in_results:
        metrics |= getattr(getattr(trainer, "training_hooks", None), "rest", {})
    return TrainResult(steps, loss, metrics)


def of_all_steps(losses: float, steps: int) -> float:
    """The Trainer's `train_loss`: the sum over the steps of a run by the number of all, also those before it."""
    return losses / max(steps, 0.001)


def _speed(trainer: Any, batches: Any) -> dict[str, float]:
    """`train_runtime` in seconds, and what the whole run is by the second, rounded as transformers does."""
    started = getattr(getattr(trainer, "training_hooks", None), "started", None)
    if started is None:
        return {}
    seconds = time.perf_counter() - started
    return speeds("train", seconds) if batches is None else of_training(batches, seconds, batches.steps)
