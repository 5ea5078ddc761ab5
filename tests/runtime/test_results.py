"""rt.train_result: what transformers' `Trainer.train()` returns."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from porter import runtime as rt


def trainer(losses: list[float]) -> Any:
    logger = SimpleNamespace(
        get_metric_history=lambda prefix, name, mode: {("", "loss", "train"): losses}[prefix, name, mode]
    )
    return SimpleNamespace(metrics_logger=logger, metrics_prefix="", train_steps=len(losses))


def test_the_mean_over_the_steps() -> None:
    found = rt.train_result(trainer([3.0, 2.0, 1.0]))
    assert (found.global_step, found.training_loss) == (3, pytest.approx(2.0))
    assert found.metrics == {"train_loss": pytest.approx(2.0)}


def test_the_speed_of_the_run() -> None:
    made = trainer([3.0, 1.0])
    made.training_hooks = SimpleNamespace(started=time.perf_counter() - 4.0)
    batches = SimpleNamespace(rows=20, steps=2, steps_per_epoch=4)
    found = rt.train_result(made, batches).metrics
    assert found["train_runtime"] == pytest.approx(4.0, abs=0.1)
    assert found["train_steps_per_second"] == pytest.approx(0.5, abs=0.02)
    assert found["train_samples_per_second"] == pytest.approx(2.5, abs=0.1)
    assert found["epoch"] == 0.5 and found["train_loss"] == 2.0


def test_a_resumed_run_counts_the_steps_before_it_as_the_trainer_does() -> None:
    made = trainer([3.0, 1.0])
    made.train_steps = 8
    assert rt.train_result(made).training_loss == 0.5


def test_a_run_of_no_step() -> None:
    """Tunix's logger has no history then, as where a finished run is started again."""
    made = trainer([])
    made.metrics_logger.get_metric_history = lambda prefix, name, mode: {}[mode]
    made.train_steps = 6
    found = rt.train_result(made, SimpleNamespace(steps=6, steps_per_epoch=3))
    assert (found.global_step, found.training_loss, found.metrics) == (6, 0.0, {"train_loss": 0.0, "epoch": 2.0})
