"""`[tool.tpu-port]` of the nearest pyproject.toml: a project's own defaults for the command line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import is_file, read_text

KEYS: dict[str, type] = {
    "launch-config": str,
    "mesh": str,
    "processes": int,
    "source-trl": str,
    "rules": list,
    "select": list,
    "ignore": list,
}
GROUP = "tpu_port.packs"
SECTION = re.compile(r"^\s*\[\s*tool\s*\.\s*[\"']?tpu-port[\"']?\s*\]", re.MULTILINE)


@dataclass(frozen=True)
class Project:
    """What a project sets. Paths are relative to its pyproject.toml in the file and resolved here."""

    path: Path | None = None
    launch_config: Path | None = None
    mesh: str | None = None
    processes: int | None = None
    source_trl: str | None = None
    rules: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """The keys that the file sets."""
        given = {key: getattr(self, key.replace("-", "_")) for key in KEYS}
        return tuple(key for key, value in given.items() if value)


def read_project(source: Path) -> Project:
    """The settings of the nearest pyproject.toml, upwards from `source`, that has a [tool.tpu-port] section.

    Looked for up to the repository's root or the home folder, among files of the user, of root, and of the source's
    own owner: what somebody else put into a folder above (`/tmp/pyproject.toml`) says nothing.
    InputError when that file isn't TOML, or has a key or type that tpu-port doesn't know.
    """
    for path in _candidates(source):
        try:
            if not _is_ours(path, source):
                continue
            text = read_text(path)
        except (OSError, UnicodeDecodeError, InputError):
            continue  # not ours to complain about: it has no section that we could read
        if SECTION.search(text):
            return _project(path, text)
    return Project()


def installed_packs() -> tuple[Path, ...]:
    """The packs of installed distributions (entry point group `tpu_port.packs`).

    `importlib.metadata` takes longer over a machine learning environment than porting a script does, so it is asked
    only when some distribution's entry points name the group.
    """
    for folder in dict.fromkeys(sys.path):
        for pattern in ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"):
            for path in Path(folder or ".").glob(pattern):
                if is_file(path) and f"[{GROUP}]" in path.read_text(encoding="utf-8", errors="replace"):
                    from ..engine.packs.packs import entry_point_packs

                    return entry_point_packs()
    return ()


def _candidates(source: Path) -> Iterator[Path]:
    start = Path(os.path.abspath(source))
    home = Path.home()
    for folder in (start, *start.parents):
        yield folder / "pyproject.toml"
        if folder == home or os.path.lexists(folder / ".git"):
            return


def _is_ours(path: Path, source: Path) -> bool:
    owners = {os.geteuid(), 0, os.stat(source).st_uid if os.path.exists(source) else os.geteuid()}
    return os.stat(path).st_uid in owners


def _project(path: Path, text: str) -> Project:
    import tomllib  # here: a project without the section doesn't wait for it

    try:
        section: dict[str, Any] = tomllib.loads(text)["tool"]["tpu-port"]
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", path) from error
    except RecursionError:
        raise InputError("not TOML that can be read: it is nested too deeply", path) from None
    if not isinstance(section, dict):
        raise InputError("tool.tpu-port is no section", path, fix="see docs/cli.md")
    for key, value in section.items():
        if key not in KEYS:
            raise InputError(f"[tool.tpu-port] has an unknown key {key!r}", path, fix=f"known are {', '.join(KEYS)}")
        texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (texts if KEYS[key] is list else type(value) is KEYS[key]):
            want = {"str": "text", "int": "a number", "list": "a list of text"}[KEYS[key].__name__]
            raise InputError(f"[tool.tpu-port] {key} is {value!r}", path, fix=f"it has to be {want}")
    folder = path.parent
    launch_config = section.get("launch-config")
    return Project(
        path=path,
        launch_config=folder / launch_config if launch_config else None,
        mesh=section.get("mesh"),
        processes=section.get("processes"),
        source_trl=section.get("source-trl"),
        rules=tuple(folder / name for name in section.get("rules", ())),
        select=tuple(section.get("select", ())),
        ignore=tuple(section.get("ignore", ())),
    )
