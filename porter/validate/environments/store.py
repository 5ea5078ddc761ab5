"""Where environments are kept: one folder each, named by what is in it; a finished one has `finished.json`.

    $XDG_CACHE_HOME/tpu-port/environments/trl-0.8.6-transformers-4.40.1-3f2a9c01/

An environment is made in place under a lock, and `finished.json` is written last: a folder without it is what an ended
installation left, and is never used.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FINISHED = "finished.json"


@dataclass(frozen=True)
class Kept:
    """A folder of the store. `about` is what `finished.json` says, None of a half-made one."""

    folder: Path
    about: dict[str, Any] | None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def used(self) -> float:
        """When a run last started in it, in seconds of the epoch."""
        marker = self.folder / FINISHED
        return marker.stat().st_mtime if marker.exists() else self.folder.stat().st_mtime

    def size(self) -> int:
        """Bytes on disk, of files that other environments don't have too (uv links them from its own cache)."""
        return sum(file.lstat().st_size for file in self.folder.rglob("*") if file.is_file() and not file.is_symlink())


def store() -> Path:
    """The folder of all environments: below TPU_PORT_CACHE, or the user's cache."""
    cache = os.environ.get("TPU_PORT_CACHE")
    if not cache:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        cache = str(Path(home) / "tpu-port")
    return Path(cache) / "environments"


def kept() -> list[Kept]:
    """Every environment, half-made ones too, by name."""
    folder = store()
    found = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [look(path) for path in found if not path.name.startswith(".")]


def look(folder: Path) -> Kept:
    """What is at `folder`; a `finished.json` that can't be read counts as none."""
    try:
        about = json.loads((folder / FINISHED).read_text("utf-8"))
    except (OSError, ValueError):
        about = None
    usable = isinstance(about, dict) and (folder / "bin" / "python").exists()
    return Kept(folder, about if usable else None)


def finish(folder: Path, about: dict[str, Any]) -> None:
    """Say that the environment at `folder` is whole."""
    partial = folder / f"{FINISHED}.partial"
    partial.write_text(json.dumps(about, indent=1), encoding="utf-8")
    partial.replace(folder / FINISHED)


def mark_used(folder: Path) -> None:
    with contextlib.suppress(OSError):  # a cache that may only be read
        os.utime(folder / FINISHED)


@contextlib.contextmanager
def locked(name: str, say: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Only one process at a time is in here for one environment; the others wait, and say so."""
    folder = store()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another tpu-port is making {name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove(environment: Kept) -> int:
    """Delete an environment that nobody is making; the bytes that were freed."""
    size = environment.size()
    with locked(environment.name):
        (environment.folder / FINISHED).unlink(missing_ok=True)  # first: cut off, it leaves nothing usable
        shutil.rmtree(environment.folder, ignore_errors=True)
    (store() / f".{environment.name}.lock").unlink(missing_ok=True)
    return size


def ago(moment: float) -> str:
    """`3 days ago`, for a list."""
    seconds = max(time.time() - moment, 0)
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return "just now"
