"""What `Trainer.train()` returns, from what Tunix's trainer keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TrainResult:
    """transformers' TrainOutput: `metrics` has `train_loss` alone; nobody measured times and FLOPs."""

    global_step: int
    training_loss: float
    metrics: dict[str, float] = field(default_factory=dict)


def train_result(trainer: Any) -> TrainResult:
    """Steps and mean loss of the run that has just ended, as transformers' `Trainer.train()` returns them.

    `training_loss` is the mean over the optimizer steps of this run, those before a resumption left out.
    """
    losses = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, "loss", "train")
    loss = float(np.mean(losses)) if len(losses) else float("nan")
    return TrainResult(int(trainer.train_steps), loss, {"train_loss": loss})
