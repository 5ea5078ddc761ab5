"""SIGTERM during training: the step in hand is finished, its checkpoint written, and the process ends.

A slice that is taken back, a scheduler, `docker stop` send it. Without checkpoints it ends a run as ever, and a script
that listens itself goes on listening. Of several processes JAX's preemption service hears it, whichever of them gets
it, and finds the step at which all of them stop; it would go unheard there, with checkpoints or without.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from types import FrameType
from typing import Any

import jax

STOPPED = 143  # 128 + SIGTERM, as shells say it
LOOK = 0.5  # seconds between two looks whether the training that is to stop still runs


class Stopping:
    """Listens from `begin` until the trainer has closed, or training has ended with an exception."""

    def __init__(self) -> None:
        self._heard = threading.Event()
        self._answered = threading.Event()
        self._trainer: Any = None
        self._listens = False

    def begin(self, train_ctx: Any) -> None:
        """SIGTERM is heard from now on, where a checkpoint can be written and the script doesn't listen itself."""
        self._heard, self._answered = threading.Event(), threading.Event()
        left = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if isinstance(left, Stopping):
            left.end()  # of a training that ended with an exception
        folder = train_ctx.config.checkpoint_root_directory
        if jax.process_count() > 1:
            self._listens = True
            return
        self._listens = folder is not None and not train_ctx.is_managed_externally
        if not self._listens:
            return
        of_main = threading.current_thread() is threading.main_thread()
        if of_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._trainer = weakref.ref(train_ctx)
            signal.signal(signal.SIGTERM, self._hear)

    def check(self, train_ctx: Any) -> None:
        """Called before a step's first micro-batch; SystemExit, once its checkpoint is there, after SIGTERM."""
        if not self._listens or not self._asked(train_ctx.train_steps):
            return
        train_ctx._throttler.wait_for_all()
        train_ctx.close()
        self.end()
        if jax.process_index() == 0:
            folder = train_ctx.config.checkpoint_root_directory
            kept = f", whose checkpoint is in {folder}; rt.resume_dir goes on from there"
            print(f"SIGTERM: stopped after step {train_ctx.train_steps}{kept if folder else ''}", flush=True)
        raise SystemExit(STOPPED)

    def ended(self, train_ctx: Any) -> None:
        """No further step comes. What is heard until the last checkpoint is written ends the process behind it."""
        if self._trainer is None:
            self._listens = False
            return
        close = train_ctx.close

        def closing() -> None:
            train_ctx.close = close
            try:
                close()
            finally:
                if not self._heard.is_set():
                    self.end()
            if self._heard.is_set():
                folder = train_ctx.config.checkpoint_root_directory
                print(f"SIGTERM: ends behind the last step, whose checkpoint is in {folder}", flush=True)
                self.end()
                signal.raise_signal(signal.SIGTERM)

        train_ctx.close = closing

    def end(self) -> None:
        """SIGTERM ends the process again, as before."""
        self._listens, self._trainer = False, None
        self._answered.set()
        if getattr(signal.getsignal(signal.SIGTERM), "__self__", None) is self:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """The first one is kept in mind; whoever sends another doesn't want to wait."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not self._trains(frame):
            signal.raise_signal(signal.SIGTERM)
        self._heard.set()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        """Training may still end with an exception that the script catches: then SIGTERM ends the process."""
        main = threading.main_thread().ident
        while not self._answered.wait(LOOK):
            if not self._trains(sys._current_frames().get(main or 0)):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def _trains(self, frame: FrameType | None) -> bool:
        """Whether the trainer's loop is among the callers of what the main thread does."""
        trainer = None if self._trainer is None else self._trainer()
        while frame is not None and trainer is not None:
            if frame.f_code.co_name == "train" and frame.f_locals.get("self") is trainer:
                return True
            frame = frame.f_back
        return False

    def _asked(self, step: int) -> bool:
        if jax.process_count() == 1:
            return self._heard.is_set()
        from jax.experimental import multihost_utils

        return bool(multihost_utils.reached_preemption_sync_point(step))
