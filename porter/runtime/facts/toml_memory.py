"""TOML that was read once: parsed again it takes twenty times as long as JSON, at every start of the tool.

What was parsed is kept in the user's own cache folder (`$XDG_CACHE_HOME/tpu-port`, else `~/.cache/tpu-port`) as JSON,
under the hash of the text that it came from: a table that changes is another entry. A memory that can't be read, that
isn't the user's own file, or that others may write is none. Nothing here is ever run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import Any

MOST = 256  # texts
LARGEST = 8 * 1024 * 1024  # bytes of the file
NAME = "toml.json"

_known: dict[str, Any] | None = None  # by hash, as the file has it
_parsed: dict[str, Any] = {}  # what this process has asked for
_is_new = False


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a file, which its readers don't change. OSError, UnicodeDecodeError or tomllib's error."""
    return parse_toml(path.read_bytes())


def parse_toml(data: bytes) -> dict[str, Any]:
    """The content of a text; tomllib.TOMLDecodeError, a ValueError, where it is no TOML."""
    global _known, _is_new
    if _known is None:
        _known = _remembered()
    digest = hashlib.sha256(data).hexdigest()
    if digest not in _parsed:
        known = _known.get(digest)
        _is_new = _is_new or known is None
        _parsed[digest] = known if isinstance(known, dict) else tomllib.loads(data.decode())
    found: dict[str, Any] = _parsed[digest]
    return found


def remember() -> None:
    """Keep what this process has parsed for the next; silently nothing where that can't be written."""
    global _is_new
    if not _is_new:
        return
    _is_new = False
    entries = {digest: data for digest, data in [*_parsed.items(), *(_known or {}).items()][:MOST] if _is_json(data)}
    text = json.dumps(entries).encode()
    if len(text) > LARGEST:
        return
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        folder = memory().parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, temporary = tempfile.mkstemp(prefix=f".{NAME}.", dir=folder)  # written by its owner alone
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text)
            os.replace(temporary, memory())
        except OSError:
            os.unlink(temporary)


def memory() -> Path:
    """The file in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return folder / "tpu-port" / NAME


def _is_json(data: Any) -> bool:
    """Whether JSON gives back the same; a date of TOML's it doesn't know."""
    if isinstance(data, dict):
        return all(_is_json(item) for item in data.values())
    if isinstance(data, list):
        return all(_is_json(item) for item in data)
    return isinstance(data, str | int | float | bool)


def _remembered() -> dict[str, Any]:
    try:
        number = os.open(memory(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(number, "rb") as file:
            about = os.fstat(file.fileno())
            own = about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not own or not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                return {}
            found = json.loads(file.read())
    except (OSError, ValueError, RuntimeError, RecursionError, AttributeError):  # no file, no home, no JSON, no POSIX
        return {}
    return found if isinstance(found, dict) else {}
