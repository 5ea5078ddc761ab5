"""The time of day and the identifiers that a script asks for: the same on both sides, and in every run.

`datetime.now().strftime(...)`, `int(time.time())` and `uuid.uuid4()` name folders, runs and repositories. The source
and its port, which start one after the other, would write to different ones, whatever the port is like. Libraries go on
seeing the real time, and so does what measures how long something takes by `perf_counter` or `monotonic`.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import functools
import gc
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .callers import of_user

STARTED = "started.txt"  # of the work folder: the time of the first run
TICK = 0.001  # seconds from one question to the next: a script that waits for a time comes to its end
NOTE = "the time of day and new identifiers that the script asks for were the same on both sides"


class Clock:
    """What the script reads off: the time of the first run's start, later by a tick with each question and by sleeps.

    `note` hears when it is asked.
    """

    def __init__(self, work: Path, note: Callable[[str], None]) -> None:
        self.note = note
        self.now = _started(work)
        self._drawn = random.Random(self.now)

    def time(self) -> float:
        self.note(NOTE)
        self.now += TICK
        return self.now

    def bytes(self, count: int = 32) -> bytes:
        """Of a new identifier."""
        self.note(NOTE)
        return self._drawn.randbytes(count)


def tell_alike(work: Path, note: Callable[[str], None]) -> None:
    """Give the script that this process is to run a clock of its own, in the validation's folder `work`."""
    clock = Clock(work, note)
    _patch_time(clock)
    _patch_datetime(clock)
    _replace(os, "urandom", clock.bytes)
    _replace(secrets, "token_bytes", lambda nbytes=None: clock.bytes(nbytes or 32))
    _replace(secrets, "token_hex", lambda nbytes=None: clock.bytes(nbytes or 32).hex())
    for version in (1, 4):
        _replace(uuid, f"uuid{version}", functools.partial(_identifier, clock, version))


def _started(work: Path) -> float:
    """When the first run of the validation began, in whole seconds."""
    file, own = work / STARTED, work / f"{STARTED}.{os.getpid()}"
    if not file.exists():
        own.write_text(str(int(time.time())), encoding="utf-8")
        with contextlib.suppress(FileExistsError):  # another rank was first
            os.link(own, file)
        own.unlink()
    return float(file.read_text(encoding="utf-8"))


def _patch_time(clock: Clock) -> None:
    local = time.localtime
    _replace(time, "time", clock.time)
    _replace(time, "time_ns", lambda: round(clock.time() * 10**9))
    for name in ("localtime", "gmtime", "ctime"):
        _replace(time, name, _of_now(getattr(time, name), 1, clock.time))
    for name, count in (("strftime", 2), ("asctime", 1)):
        _replace(time, name, _of_now(getattr(time, name), count, lambda: local(clock.time())))
    sleep = time.sleep

    def slept(seconds: float) -> None:
        clock.now += seconds
        sleep(seconds)

    _replace(time, "sleep", slept)


def _of_now(original: Callable[..., Any], count: int, now: Callable[[], Any]) -> Callable[..., Any]:
    """A function of `time` whose last argument of `count` is a time, and what is now where that isn't given."""
    return lambda *args: (
        original(*args) if args[count - 1 :] not in ((), (None,)) else original(*args[: count - 1], now())
    )


def _patch_datetime(clock: Clock) -> None:
    """`datetime.now` and its kin, within the class: that stays what it is to libraries, isinstance and pickle.

    What C asks for itself, `date.today` among it, is `time.time`.
    """
    kind = datetime.datetime
    now, utcnow = (kind.__dict__[name] for name in ("now", "utcnow"))
    zone = datetime.timezone(datetime.timedelta())

    def patched_now(cls: Any, tz: Any = None) -> Any:
        return cls.fromtimestamp(clock.time(), tz) if _by_script() else now.__get__(None, cls)(tz)

    def patched_utcnow(cls: Any) -> Any:
        if not _by_script():
            return utcnow.__get__(None, cls)()
        return cls.fromtimestamp(clock.time(), zone).replace(tzinfo=None)

    own = gc.get_referents(kind.__dict__)[0]  # a class of C lets nobody set its attributes
    own.update(now=classmethod(patched_now), utcnow=classmethod(patched_utcnow))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _identifier(clock: Clock, version: int, *args: Any, **kwargs: Any) -> uuid.UUID:
    return uuid.UUID(bytes=clock.bytes(16), version=version)


def _replace(module: Any, name: str, instead: Callable[..., Any]) -> None:
    """The script gets another answer of `module.name`; libraries get their own."""
    original = getattr(module, name)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return (instead if _by_script() else original)(*args, **kwargs)

    setattr(module, name, function)


def _by_script() -> bool:
    """Whether the function that calls this one was called by the user's code; what is generated, as a dataclass's
    constructor, is looked through."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<"):
        frame = frame.f_back
    return frame is not None and of_user(frame.f_code.co_filename)
