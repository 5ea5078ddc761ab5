"""Traces of runs that never were: twelve steps of four rows, which a test changes by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Row, Step, Trace
from porter.validate.comparing.verdict import Check

STEPS = 12
A = "base_model.model.model.layers.{}.self_attn.{}.lora_A.weight"
NAMES = [A.format(layer, name) for layer in (0, 1) for name in ("q_proj", "k_proj")]
CONFIG = {
    "optimizer": "adamw",
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "steps": STEPS,
    "lora_scaling": [2.0],
    "tensors": {name: [4, 8] for name in NAMES},
}


def dataset() -> list[Row]:
    """Forty rows; the first half of each is a prompt."""
    draw = np.random.default_rng(0)
    rows = []
    for length in draw.integers(12, 30, 40):
        tokens = draw.integers(3, 500, length)
        labels = np.where(np.arange(length) < length // 2, -100, tokens)
        rows.append(Row.of(tokens, labels))
    return rows


def run(rows: list[Row] | None = None, order: list[int] | None = None) -> Trace:
    """A trace of twelve steps of four rows, two micro-batches each."""
    rows = dataset() if rows is None else rows
    order = list(np.random.default_rng(1).permutation(len(rows))) if order is None else order
    draw = np.random.default_rng(2)
    rates = [1e-3 * (1 - step / STEPS) for step in range(STEPS)]
    steps = []
    for number in range(STEPS):
        picked = tuple(rows[order[(4 * number + place) % len(order)]] for place in range(4))
        row_loss = tuple(float(row.trained * draw.uniform(4, 8)) for row in picked)
        loss = sum(row_loss) / sum(row.trained for row in picked)
        steps.append(Step(picked, (2, 2), rates[number], loss, 1.0 + number / 10, row_loss))
    initial = {name: draw.normal(size=(4, 8)).astype(np.float32) for name in NAMES}
    return Trace(
        config=CONFIG,
        steps=tuple(steps),
        schedule=tuple(rates),
        initial=initial,
        final={name: array + np.float32(0.1) for name, array in initial.items()},
        dataset=tuple(row.mark for row in rows),
    )


def with_config(trace: Trace, **settings: Any) -> Trace:
    return replace(trace, config={**trace.config, **settings})


def with_steps(trace: Trace, change: Callable[[int, Step], Step]) -> Trace:
    return replace(trace, steps=tuple(change(number, step) for number, step in enumerate(trace.steps)))


def first(source: Trace, port: Trace) -> Check:
    return next(check for check in checks.compare(source, port, FLOAT32) if check.status == "differs")
