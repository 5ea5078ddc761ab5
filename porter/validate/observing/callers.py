"""Who asks: the user's own code or a library, told by the file of the frame that called.

A stand-in module is there for the script alone: a library that probes for it must go on believing that it isn't.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType

OURS = str(Path(__file__).resolve().parents[2])
RUNTIME = os.path.join(OURS, "runtime")
STANDARD = tuple({os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# What hands a question on without asking it: a module's and a wrapped model's attribute access.
FORWARDING = ("__getattr__", "__getattribute__")


@functools.cache
def of_user(file: str) -> bool:
    """Whether source file `file` is neither a library's, nor Python's, nor tpu-port's own."""
    if file.startswith("<"):
        return False
    path = os.path.realpath(file)
    return not (any(part in path for part in INSTALLED) or path.startswith((*STANDARD, OURS + os.sep)))


def asked_by_script(*, at_once: bool = False) -> bool:
    """Whether the function that calls this one was called by the user's code.

    Frames of the import system, of tpu-port and of attribute forwarding are looked through; with `at_once` none is.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not at_once and _looked_through(frame):
        frame = frame.f_back
    return frame is not None and of_user(frame.f_code.co_filename)


def asked_by_runtime() -> bool:
    """Whether the runtime that ports call is what asks, also where a library called that: a callback's hook."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename.startswith("<") or _imports(frame)):
        frame = frame.f_back
    return frame is not None and os.path.realpath(frame.f_code.co_filename).startswith(RUNTIME + os.sep)


def asking_line() -> tuple[str, int] | None:
    """File and line of the user's code that asks; None when a library does."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _looked_through(frame):
        frame = frame.f_back
    if frame is None or not of_user(frame.f_code.co_filename):
        return None
    return frame.f_code.co_filename, frame.f_lineno


def _looked_through(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith("<") or frame.f_code.co_name in FORWARDING:
        return True
    return _imports(frame) or os.path.realpath(file).startswith(OURS + os.sep)


def _imports(frame: FrameType) -> bool:
    return os.path.realpath(frame.f_code.co_filename).startswith(_importing())


@functools.cache
def _importing() -> tuple[str, ...]:
    import contextlib
    import importlib.util

    folder = os.path.dirname(os.path.realpath(importlib.util.__file__))
    return (folder + os.sep, os.path.realpath(contextlib.__file__), os.path.realpath(functools.__file__))
