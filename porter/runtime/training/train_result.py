"""What `Trainer.train()` returns, from what Tunix's trainer keeps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TrainResult:
    """transformers' TrainOutput. Of its metrics `total_flos` is missing: transformers estimates it from the model."""

    global_step: int
    training_loss: float
    metrics: dict[str, float] = field(default_factory=dict)


def train_result(trainer: Any, batches: Any = None) -> TrainResult:
    """Steps, mean loss and speed of the run that has just ended, as transformers' `Trainer.train()` returns them.

    `training_loss` is the mean over the optimizer steps of this run, those before a resumption left out. The seconds
    are those from the run's start until this call, compilation included; rows and epochs are counted by `batches`.
    """
    losses = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, "loss", "train")
    loss = float(np.mean(losses)) if len(losses) else float("nan")
    steps = int(trainer.train_steps)
    metrics = _speed(trainer, batches) | {"train_loss": loss}
    if batches is not None:
        metrics["epoch"] = steps / batches.steps_per_epoch
    return TrainResult(steps, loss, metrics)


def _speed(trainer: Any, batches: Any) -> dict[str, float]:
    """`train_runtime` in seconds, and what the whole run is by the second, rounded as transformers does."""
    started = getattr(getattr(trainer, "training_hooks", None), "started", None)
    if started is None:
        return {}
    seconds = time.perf_counter() - started
    found = {"train_runtime": round(seconds, 4)}
    if batches is None:
        return found
    if hasattr(batches, "rows"):
        rows = batches.rows * batches.steps / batches.steps_per_epoch
        found["train_samples_per_second"] = round(rows / seconds, 3)
    return found | {"train_steps_per_second": round(batches.steps / seconds, 3)}
