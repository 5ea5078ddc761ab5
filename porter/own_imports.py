"""What the tool itself imports never comes from the folder that it is started in, nor does what it starts.

A stranger's project may hold a `jax.py`, a `click/` or an `x.dist-info` with an entry point. Python puts the current
folder on the path for `python -c` and `-m`, and for every empty part of PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

# Where this package lies: no stranger's folder, even when it is the current one.
HOME = str(Path(__file__).resolve().parents[1])
SAFE = "PYTHONSAFEPATH"
# An interpreter of ours: it puts neither the current folder nor a script's in front of its path.
PYTHON = (sys.executable, "-P")


def is_here(part: str) -> bool:
    """Whether an entry of a path means the current folder, and isn't where this package lies."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # the folder is gone
        return part in ("", ".")
    found = os.path.realpath(part or ".")
    return found == here and found != HOME


def leave_out_current_folder() -> None:
    """Take the current folder off `sys.path`."""
    sys.path[:] = [part for part in sys.path if not is_here(part)]


def search_path(given: str) -> str:
    """A PYTHONPATH without the current folder; empty parts mean it."""
    return os.pathsep.join(part for part in given.split(os.pathsep) if part and not is_here(part))


def safe_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process that imports for the tool."""
    kept = {**environment, SAFE: "1", "PYTHONPATH": search_path(environment.get("PYTHONPATH", ""))}
    if not kept["PYTHONPATH"]:
        del kept["PYTHONPATH"]
    return kept


@contextmanager
def safe_children() -> Iterator[None]:
    """While it lasts, worker processes start without the current folder on their path, too."""
    before = {name: os.environ.get(name) for name in (SAFE, "PYTHONPATH")}
    for name in before:
        os.environ.pop(name, None)
    os.environ.update({name: text for name, text in safe_environment(_with(before)).items() if name in before})
    try:
        yield
    finally:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text


def _with(names: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in names.items() if text is not None}
