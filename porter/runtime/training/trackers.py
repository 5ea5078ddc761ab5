"""The trackers of a run that Tunix's trainer logs to: their runs begin when the training does."""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import jax
from tunix.sft.metrics_logger import TensorboardBackend, WandbBackend


class _ActiveRun:
    """A Tunix metrics backend that logs to the W&B run that the script has begun, and leaves its end to the script."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self._run.log({event.lstrip("/"): value}, step=int(kwargs.get("step") or 0))

    def is_of(self, run: Any) -> bool:
        return run is not None and run is self._run

    def close(self) -> None:
        pass


class WandbRun:
    """A Tunix metrics backend whose run begins with the training, as transformers' does, not with the trainer: a login
    a run of the script's own, or the variables that W&B reads may stand between the two. It stays open behind the
    training, for what the script logs there. ImportError at once where wandb isn't installed.

    JAX hands every backend the values of all trainers; those that come before its own training are another's.
    """

    training: WandbRun | None = None  # the one whose training goes on
    open: tuple[Any, Any] | None = None  # the run that the last training has begun, and its backend

    def __init__(self, name: str | None) -> None:
        self._name, self._ended = name, False
        self._backend: Any = None
        if jax.process_index() == 0:
            importlib.import_module("wandb")

    def begin(self) -> None:
        """Start the run, unless it has begun."""
        if WandbRun.training is not self:
            _end_open_run()
            self._backend, self._ended = _wandb_backend(self._name), False
            WandbRun.training = self

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        if WandbRun.training is None and "step" in kwargs and not self._ended:  # JAX's own measurements have no step
            self.begin()
        if WandbRun.training is self:
            self._backend.log_scalar(event, value, **kwargs)

    def log_beside(self, values: Mapping[str, float], step: int) -> None:
        """Log values outside of the training: its run begins with them, or is the one that it has left open."""
        if self._backend is None:
            self.begin()
        run = _wandb_run()
        left_open = WandbRun.open is not None and WandbRun.open[1] is self._backend and WandbRun.open[0] is run
        if isinstance(self._backend, _ActiveRun):
            left_open = self._backend.is_of(run)
        if WandbRun.training is not self and not left_open:
            print("W&B: the run of the training is over, and what is evaluated behind it isn't logged")
            return
        last = getattr(run, "step", 0)
        at = max(step, last if isinstance(last, int) else 0)  # W&B takes nothing for a step before its last
        for event, value in values.items():
            self._backend.log_scalar(event, value, step=at)

    def close(self) -> None:
        self._ended = True
        if WandbRun.training is self:
            WandbRun.training = None


def begin_runs(trainer: Any) -> None:
    """Start the runs of the trackers that a trainer logs to, where they haven't begun."""
    for backend in getattr(getattr(trainer, "metrics_logger", None), "_backends", ()):
        if isinstance(backend, WandbRun):
            backend.begin()


def log_beside(trainer: Any, metrics: Mapping[str, Any], step: int) -> None:
    """Send an evaluation that the script asks for itself to the trainer's trackers, under transformers' names.

    Tunix's logger sends nothing behind the training, which closes it.
    """
    values = {_event(name): value for name, value in metrics.items() if isinstance(value, int | float)}
    for backend in getattr(getattr(trainer, "metrics_logger", None), "_backends", ()):
        if isinstance(backend, WandbRun):
            backend.log_beside(values, step)
            continue
        for event, value in values.items():
            backend.log_scalar(event, value, step=step)
        if isinstance(backend, TensorboardBackend):  # it opens another file, which nothing closes
            atexit.register(backend.close)


def _event(name: str) -> str:
    """`eval/loss` of `eval_loss`, as transformers' trackers have it."""
    split, _, rest = name.partition("_")
    return f"{split}/{rest}" if split in ("eval", "test") and rest else f"train/{name}"


def _wandb_backend(name: str | None) -> Any:
    """Tunix's W&B backend, named as transformers names a run; the script's own run where there is one.

    `wandb.init` returns an active run in any case, but asks for a key first where that run is disabled.
    """
    run = _wandb_run()
    if run is not None:
        return _ActiveRun(run)
    project = os.environ.get("WANDB_PROJECT", "huggingface")
    made = WandbBackend(project=project, name=name or os.environ.get("WANDB_NAME"))
    WandbRun.open = (_wandb_run(), made)
    return made


def _end_open_run() -> None:
    """End the run that a training has left open, before the next has its own: their steps would be mixed up."""
    if WandbRun.open is not None:
        run, backend = WandbRun.open
        if run is not None and run is _wandb_run():
            backend.close()
        WandbRun.open = None


def _wandb_run() -> Any:
    """The run that goes on; None where there is none, or no wandb, or on another process than the first."""
    if jax.process_index() or not is_installed("wandb"):
        return None
    import wandb  # type: ignore[import-not-found, unused-ignore]

    return wandb.run


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it isn't."""
    return find_spec(module) is not None
