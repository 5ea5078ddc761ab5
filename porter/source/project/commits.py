"""The day on which a script was last committed: what was released later it can't have been written for.

Of a notebook the day on which its cells last ran, where that is earlier.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

from .run_days import last_run

PATIENCE = 2.0  # seconds for each question
OF_SHA1 = 40  # hexadecimal digits
SUBMODULE = re.compile(r"(?m)^160000 commit (\w+)\t(.+)$")  # of what `git ls-tree` shows
# A repository's own settings start no program: nothing is fetched, verified, watched or filtered.
QUIETLY = [
    *("git", "--no-pager", "-c", "log.showSignature=false", "-c", "core.fsmonitor=false"),
    *("-c", "protocol.allow=never", "-c", f"core.hooksPath={os.devnull}"),
]
OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # which git sets where it runs a hook


@lru_cache(maxsize=1024)
def last_committed(script: Path) -> datetime.date | None:
    """None where git doesn't tell: no repository, a file that it doesn't hold or that was changed since."""
    if not any(os.path.lexists(folder / ".git") for folder in script.resolve().parents):
        return None
    held = _ask(script, "rev-parse", f"HEAD:./{script.name}")
    if held is None or held != _blob_of(script, "sha1" if len(held) == OF_SHA1 else "sha256"):
        return None
    day = _ask(script, "log", "-1", "--format=%cs", "--", f":(literal){script.name}")
    try:
        return datetime.date.fromisoformat(day or "")
    except ValueError:
        return None


def latest_day(script: Path, since: datetime.date | None = None) -> datetime.date | None:
    """The day of the last commit, or of a notebook's last run where that is earlier; of those before `since`, when what
    the script is for came out, none: it has been run since. None where nothing tells it."""
    days = (day for day in (last_run(script), last_committed(script)) if day is not None)
    return min((day for day in days if since is None or since <= day), default=None)


def said_day(script: Path, day: datetime.date) -> str:
    """Such a day, and why it is that one: `2025-03-10, when the script was last committed`."""
    ran = day == last_run(script) and day != last_committed(script)
    return f"{day}, when the {'notebook last ran' if ran else 'script was last committed'}"


def held_commits(folder: Path) -> dict[str, str]:
    """The submodules of the repository whose top is `folder`, each with its commit; none where git doesn't tell."""
    told = _ask(folder / ".gitmodules", "ls-tree", "-r", "HEAD") or ""
    return {path: commit for commit, path in SUBMODULE.findall(told)}


def _blob_of(script: Path, algorithm: str) -> str | None:
    """The name that git gives to what a file holds."""
    try:
        data = script.read_bytes()
    except OSError:
        return None
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _ask(script: Path, *words: str) -> str | None:
    kept = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER}
    env = kept | {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            [*QUIETLY, *words],
            cwd=script.resolve().parent,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
