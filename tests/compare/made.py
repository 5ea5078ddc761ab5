"""Logs as runs leave them, made of numbers: the noise of a run is drawn from its seed."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

STEPS, PEAK, EPOCH = 200, 2e-3, 100


def lines(
    seed: int = 0, *, noise: float = 2e-3, factor: float = 1.0, drift: float = 0.0, steps: int = STEPS, early: int = 0
) -> list[dict[str, Any]]:
    """A run's history with a line a step: a loss that falls, rows that scatter alike in all runs, chance that grows."""
    rows, own = random.Random(42), random.Random(seed)
    found, walk = [], 0.0
    for step in range(1, steps + 1):
        base = 2.0 + 3.0 * math.exp(-step / 60)
        row = 1 + rows.gauss(0, 0.05)
        walk = 0.95 * walk + 0.3 * noise * own.gauss(0, 1)
        chance = 1 + (walk + own.gauss(0, noise)) * min(1.0, step / 20) + own.gauss(0, 1e-4)
        bent = 1 + drift * max(0.0, step - 60) / steps
        rate = PEAK * (steps - step + 1 - early) / steps
        found.append({
            "loss": base * row * chance * factor * bent, "grad_norm": 0.5, "learning_rate": rate,
            "epoch": step / EPOCH, "num_tokens": float(100 * step), "step": step,
        })  # fmt: skip
    return found


def every(history: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """What the Trainer logs of it with logging_steps=`count`."""
    windows = [history[end - count : end] for end in range(count, len(history) + 1, count)]
    return [{**window[-1], "loss": sum(line["loss"] for line in window) / count} for window in windows]


def state(path: Path, history: list[dict[str, Any]], *, port: dict[str, Any] | None = None, **more: Any) -> Path:
    """A trainer_state.json; `port`: the settings of a port's record."""
    whole: dict[str, Any] = {"log_history": history, "global_step": history[-1]["step"] if history else 0, **more}
    if port is not None:
        whole["stateful_callbacks"] = {"tpu_port": {"args": {}, "attributes": {"settings": port}}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def runs(folder: Path, seeds: range = range(1, 4)) -> list[Path]:
    """Logs of further GPU runs."""
    return [state(folder / f"second_{seed}.json", lines(seed)) for seed in seeds]
