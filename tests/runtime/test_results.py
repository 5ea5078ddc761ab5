"""rt.train_result: what transformers' `Trainer.train()` returns."""

from __future__ import annotations

import math
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


def test_a_run_of_no_step() -> None:
    found = rt.train_result(trainer([]))
    assert found.global_step == 0 and math.isnan(found.training_loss)
