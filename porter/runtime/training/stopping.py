"""SIGTERM during training: the step in hand is finished, its checkpoint written, and the process ends.

A slice that is taken back, a scheduler, `docker stop` send it. Without checkpoints it ends a run as ever. Of several
processes JAX's preemption service hears it, whichever of them gets it, and finds the step at which all of them stop.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import jax

STOPPED = 143  # 128 + SIGTERM, as shells say it


class Stopping:
    """Listens from `begin` to `end` of a training run."""

    def __init__(self) -> None:
        self._heard = threading.Event()
        self._previous: Any = None
        self._listens = False

    def begin(self, train_ctx: Any) -> None:
        """SIGTERM is heard from now on, where a checkpoint can be written."""
        self._heard.clear()
        folder = train_ctx.config.checkpoint_root_directory
        self._listens = folder is not None and not train_ctx.is_managed_externally
        if self._listens and jax.process_count() == 1 and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._hear)

    def check(self, train_ctx: Any) -> None:
        """Called before a step's first micro-batch; SystemExit, once its checkpoint is there, after SIGTERM."""
        if not self._listens or not self._asked(train_ctx.train_steps):
            return
        self.end()
        train_ctx._throttler.wait_for_all()
        train_ctx.close()
        if jax.process_index() == 0:
            print(
                f"SIGTERM: stopped after step {train_ctx.train_steps}, whose checkpoint is in "
                f"{train_ctx.config.checkpoint_root_directory}; rt.resume_dir goes on from there",
                flush=True,
            )
        raise SystemExit(STOPPED)

    def end(self) -> None:
        """SIGTERM ends the process again, as before."""
        self._listens = False
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)
            self._previous = None

    def _hear(self, *_: Any) -> None:
        """The first one is kept in mind; whoever sends another doesn't want to wait."""
        self._heard.set()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _asked(self, step: int) -> bool:
        if jax.process_count() == 1:
            return self._heard.is_set()
        from jax.experimental import multihost_utils

        return bool(multihost_utils.reached_preemption_sync_point(step))
