"""A trainer that trains nothing and reports to its hooks as Tunix's does, and what is written of its run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optax

from porter.runtime.saving.record import NAME

ROWS, LENGTH = 2, 8


class Trainer:
    """The part of a PeftTrainer that hooks see; it reports a step when the next one has been trained, as Tunix does."""

    def __init__(
        self, folder: Path | None, *, steps: int = 0, max_steps: int = 6, accumulation: int | None = None
    ) -> None:
        self.train_steps, self._mode = steps, "train"
        self.is_managed_externally = False
        self.checkpoints: list[int] = []
        self.model = SimpleNamespace()
        self.config = SimpleNamespace(
            max_steps=max_steps, checkpoint_root_directory=None if folder is None else str(folder),
            gradient_accumulation_steps=accumulation, checkpointing_options=None,
        )  # fmt: skip
        self.checkpoint_manager = SimpleNamespace(
            latest_step=lambda: self.checkpoints[-1] if self.checkpoints else None,
            _checkpoint_manager=SimpleNamespace(all_steps=lambda: self.checkpoints),
        )
        chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.linear_schedule(1e-3, 0.0, 6)))
        self.optimizer = SimpleNamespace(tx=chain)
        self.metrics_prefix = ""
        self.metrics_logger = SimpleNamespace(get_metric_history=lambda *names: np.array([0.25]))
        self.trains_on: Any = None
        self.evaluates_on: Any = None
        self._buffered_train_metrics: Any = None
        self._prev_buffered_train_metrics: Any = None

    def _write_train_metrics(self) -> None:
        pending, self._prev_buffered_train_metrics = self._prev_buffered_train_metrics, self._buffered_train_metrics
        self._buffered_train_metrics = None
        if pending is not None:
            self.hooks.on_train_step_end(self, pending.step + 1, pending.loss)

    def _prepare_inputs(self, batch: Any) -> Any:
        return batch

    def close(self) -> None: ...

    def _save_last_checkpoint(self) -> None: ...

    def train(
        self, hooks: Any, until: int, *, save: int = 0, killed: bool = False, evaluated: dict[int, float] | None = None
    ) -> None:
        """Steps with the losses 1 / step, a checkpoint every `save`; `killed`: nothing comes behind the last one.

        `evaluated`: the losses of evaluations behind steps.
        """
        self.hooks = self.training_hooks = hooks
        hooks.on_train_start(self)
        while self.train_steps < until:
            for _ in range(self.config.gradient_accumulation_steps or 1):
                self._prepare_inputs(batch())
                hooks.on_train_step_start(self)
            self._buffered_train_metrics = SimpleNamespace(step=self.train_steps, loss=1 / (self.train_steps + 1))
            self.train_steps += 1
            self._write_train_metrics()
            if save and self.train_steps % save == 0:
                self.checkpoints.append(self.train_steps)
                (Path(self.config.checkpoint_root_directory) / str(self.train_steps)).mkdir(parents=True)
            if evaluated and self.train_steps in evaluated:
                self.evaluate(hooks, evaluated[self.train_steps])
        if killed:
            return
        hooks.on_train_end(self)
        self._write_train_metrics()
        self.close()

    def evaluate(self, hooks: Any, loss: float) -> None:
        self.metrics_logger = SimpleNamespace(get_metric_history=lambda *names: np.array([loss]))
        hooks.on_eval_step_end(self, loss)


def batch() -> dict[str, np.ndarray]:
    segments = np.ones((ROWS, LENGTH), np.int32)
    segments[:, 6:] = 0
    labels = np.where(np.arange(LENGTH) < 4, -100, 7) * np.ones((ROWS, 1), np.int32)
    return {"segment_ids": segments, "labels": np.where(segments > 0, labels, -100)}


def record(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / NAME).read_text(encoding="utf-8")))


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in record(folder)["log_history"] if "loss" in line]
