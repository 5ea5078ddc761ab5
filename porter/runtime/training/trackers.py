"""The trackers of a run that Tunix's trainer logs to: their runs begin when the training does."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import jax
from tunix.sft.metrics_logger import WandbBackend


class _ActiveRun:
    """A Tunix metrics backend that logs to the W&B run that the script has begun, and leaves its end to the script."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        self._run.log({event.lstrip("/"): value}, step=int(kwargs.get("step") or 0))

    def close(self) -> None:
        pass


class WandbRun:
    """A Tunix metrics backend whose run begins with the training, as transformers' does, not with the trainer: a login
    or a run of the script's own may stand between the two. ImportError at once where wandb isn't installed.

    JAX hands every backend the values of all trainers; those that come before its own training are another's.
    """

    training: WandbRun | None = None  # the one whose training goes on

    def __init__(self, project: str, name: str | None) -> None:
        self._project, self._name = project, name
        self._backend: Any = None
        if jax.process_index() == 0:
            importlib.import_module("wandb")

    def begin(self) -> None:
        """Start the run, unless it has begun."""
        if self._backend is None:
            self._backend = _wandb_backend(self._project, self._name)
            WandbRun.training = self

    def log_scalar(self, event: str, value: float, **kwargs: Any) -> None:
        if WandbRun.training is None and "step" in kwargs:  # JAX's own measurements have none
            self.begin()
        if self._backend is not None:
            self._backend.log_scalar(event, value, **kwargs)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        if WandbRun.training is self:
            WandbRun.training = None


def begin_runs(trainer: Any) -> None:
    """Start the runs of the trackers that a trainer logs to, where they haven't begun."""
    for backend in getattr(getattr(trainer, "metrics_logger", None), "_backends", ()):
        if isinstance(backend, WandbRun):
            backend.begin()


def _wandb_backend(project: str, name: str | None) -> Any:
    """Tunix's W&B backend; the script's own run where there is one, as transformers does.

    `wandb.init` returns an active run in any case, but asks for a key first where that run is disabled.
    """
    if jax.process_index() == 0 and is_installed("wandb"):
        import wandb  # type: ignore[import-not-found, unused-ignore]

        if wandb.run is not None:
            return _ActiveRun(wandb.run)
    return WandbBackend(project=project, name=name)


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it isn't."""
    return find_spec(module) is not None
