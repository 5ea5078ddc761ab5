"""A port ends: within its budget of seconds, and on a stack that deep nesting doesn't overflow.

A script is ported on a thread of its own, whose stack is large, as syntax trees are walked by recursion. The thread
that waits for it says where it was when its time is up. Counted is the time that the processor spent on it: what is
slow because a machine has other work isn't refused, but for what takes many times as long by the clock.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

from ..errors import InputError

BUDGET = 60.0  # seconds of the processor for one script
BY_THE_CLOCK = 10  # times as many seconds: of work that waits for something
LOOK = 0.001  # seconds, the least until the time spent is looked at again
STACKS = (512 * 2**20, 64 * 2**20, 0)  # bytes; what `ulimit -v` refuses, the next one may get
DEEPEST = 50_000  # calls inside one another
PATIENCE, TIMES = 2.0, 4  # seconds to end after being told to, so many times: Python drops what a finalizer raises
DEEP = "is nested too deeply to be read"
FLATTEN = "split its longest expression, or name another file"

Result = TypeVar("Result")


class OutOfTime(BaseException):
    """Raised in the thread whose budget is spent; no `except Exception` on its way may take it."""


def within_budget(work: Callable[[], Result], path: str | Path, seconds: float = BUDGET) -> Result:
    """What `work` gives. InputError when it isn't done after `seconds` of the processor, or BY_THE_CLOCK times as many,
    with the pass and the place that it was at, or when the source is nested too deeply.
    """
    done: list[tuple[Result | None, BaseException | None]] = []
    clock: list[int] = []

    def run() -> None:
        try:
            if hasattr(time, "pthread_getcpuclockid"):  # asked by the thread itself, as one that has ended has none
                clock.append(time.pthread_getcpuclockid(threading.get_ident()))
            done.append((work(), None))
        except BaseException as error:
            with suppress(OutOfTime):  # told once more
                done.append((None, error))

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        start, begun = time.monotonic(), time.process_time()
        thread = _started(run)
        while not done:
            spent = _spent(clock[0]) if clock else time.process_time() - begun
            waited = time.monotonic() - start
            if spent >= seconds:
                raise _out_of_time(thread, path, f"{seconds:g} s of the processor")
            if waited >= seconds * BY_THE_CLOCK:
                raise _out_of_time(thread, path, f"{seconds * BY_THE_CLOCK:g} s, {spent:.1f} of them of the processor")
            thread.join(max(min(seconds - spent, seconds * BY_THE_CLOCK - waited), LOOK))
    finally:
        sys.setrecursionlimit(before)
    result, error = done[0]
    if isinstance(error, RecursionError | MemoryError):
        raise InputError(DEEP, path, fix=FLATTEN) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _started(run: Callable[[], None]) -> threading.Thread:
    before = threading.stack_size()
    for size in STACKS:
        try:
            threading.stack_size(size)
            thread = threading.Thread(target=run, name="port", daemon=True)
            thread.start()
            return thread
        except (RuntimeError, MemoryError):
            continue
        finally:
            threading.stack_size(before)
    raise InputError("has no memory for a thread", fix="raise `ulimit -v`")


def _spent(clock: int) -> float:
    """Seconds that the processor spent on a thread; 0 when it has ended."""
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def _out_of_time(thread: threading.Thread, path: str | Path, spent: str) -> InputError:
    assert thread.ident is not None
    frame = sys._current_frames().get(thread.ident)
    frames = [*_outwards(frame)]
    line = place_of(frames)
    passed = pass_of(frames)
    for _ in range(TIMES):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(OutOfTime))
        thread.join(PATIENCE / TIMES)
        if not thread.is_alive():
            break
    message = f"is not ported after {spent}{f', in {passed}' if passed else ''}"
    return InputError(message, path, line, fix="--budget SECONDS gives it more; please report it")


def frames_of(trace: TracebackType | None) -> list[FrameType]:
    """The frames of a traceback, the innermost first."""
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found[::-1]


def pass_of(frames: list[FrameType]) -> str:
    """The pass that was at work: `drop_device_maps (unused.py:98)`, the innermost of the conductor's own calls."""
    for inner, outer in pairwise(frames):
        if os.path.basename(outer.f_code.co_filename) in ("pipeline.py", "parsing.py"):
            file = os.path.basename(inner.f_code.co_filename)
            if file != os.path.basename(outer.f_code.co_filename):
                return f"{inner.f_code.co_name} ({file}:{inner.f_lineno})"
    return ""


def place_of(frames: list[FrameType]) -> int | None:
    """The line of the source that the innermost frames were looking at, as far as their variables show it."""
    for frame in frames:
        held = frame.f_locals
        module = held.get("module") or getattr(held.get("porting"), "module", None)
        for value in held.values():
            line = _line_of(value, module)
            if line is not None:
                return line
    return None


def _line_of(value: object, module: Any) -> int | None:
    if type(value).__module__ == "porter.engine.script.sites" and isinstance(line := getattr(value, "line", None), int):
        return line
    if module is None or "_spans" not in getattr(module, "__dict__", {}):
        return None
    if type(value).__module__.startswith("libcst.") and value is not module.tree:
        try:
            found: int = module.location(value)[0]
            return found
        except (KeyError, StopIteration, TypeError, AttributeError, IndexError):
            return None
    return None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
