"""Which packs of a folder's own pyproject.toml may run Python: those that the user trusted, as they were then.

A pack with Python rules is code. One that the command line names is the user's word; one that a file in somebody's
folder names is that folder's, and runs only when it was trusted once. What was trusted is remembered outside of the
folder, by the pack's path and the hash of all its files, so that a pack that changes has to be trusted again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError
from ..files import is_file, read_file
from .project import Project

LARGEST_PACK = 64 * 1024 * 1024
MOST_FILES = 10_000


def memory() -> Path:
    """`$XDG_STATE_HOME/tpu-port/trusted.json`, else below ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "tpu-port" / "trusted.json"


def runs_python(pack: Path) -> bool:
    """Whether a pack names Python rules; tables and rewrites are data. False where its pack.toml can't be read."""
    import tomllib

    try:
        data = tomllib.loads(read_file(pack / "pack.toml").decode())
        return bool(data.get("rule") or data.get("rules"))
    except (OSError, ValueError, InputError, RecursionError):
        return False  # loading it says what is wrong


def digest(pack: Path) -> str:
    """SHA-256 over the names and contents of all files of a pack, compiled ones left out (they are never loaded).

    InputError when it has more than 10,000 files or 64 MiB, or one that can't be read.
    """
    total = hashlib.sha256()
    size = 0
    names = []
    for folder, folders, files in os.walk(pack):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        names += [Path(folder, name) for name in files]
        if len(names) > MOST_FILES:
            raise InputError(f"has more than {MOST_FILES} files", pack, fix="name the folder of the pack alone")
    for path in sorted(names):
        try:
            data = read_file(path, LARGEST_PACK)
        except OSError as error:
            raise InputError(f"can't be read: {error.strerror}", path, fix="check its permissions") from None
        size += len(data)
        if size > LARGEST_PACK:
            raise InputError(
                f"has more than {LARGEST_PACK // 2**20} MiB", pack, fix="name the folder of the pack alone"
            )
        name = os.fsencode(path.relative_to(pack))
        total.update(len(name).to_bytes(8) + name + hashlib.sha256(data).digest())
    return total.hexdigest()


def is_trusted(pack: Path) -> bool:
    """Whether this pack was trusted with exactly the files that it has."""
    return _remembered().get(str(pack.resolve())) == digest(pack)


def trust(packs: Sequence[Path]) -> dict[Path, str]:
    """Remember these packs as they are; their digests. InputError when that can't be written."""
    found = {pack: digest(pack) for pack in packs}
    path = memory()
    content = {**_remembered(), **{str(pack.resolve()): text for pack, text in found.items()}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, temporary = tempfile.mkstemp(prefix=".trusted.", dir=path.parent)  # readable by its owner alone
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, sort_keys=True)
        os.replace(temporary, path)
    except OSError as error:
        fix = "set XDG_STATE_HOME to a folder that you can write"
        raise InputError(f"can't be written: {error.strerror}", path, fix=fix) from None
    return found


def packs_of(folder: Path) -> tuple[Path, ...]:
    """The packs that trusting a folder means: itself, or those that its own pyproject.toml names."""
    from .project import read_project

    if is_file(folder / "pack.toml"):
        return (folder,)
    project = read_project(folder)
    if project.rules and project.path is not None and project.path.parent.resolve() == folder.resolve():
        return project.rules
    fix = "name a pack, or the folder of the pyproject.toml that names packs"
    raise InputError("names no packs of rules to trust", folder, fix=fix)


def allowed_packs(
    project: Project, named: Sequence[Path] = (), ask: Callable[[str], bool] | None = None
) -> tuple[Path, ...]:
    """The packs of a project's file that may be loaded besides those that the command line `named`: data, and Python
    that is trusted.

    On a terminal the user is asked once for the others (`ask` in its place). InputError elsewhere, or after a no.
    """
    given = {pack.resolve() for pack in named}
    packs = tuple(pack for pack in project.rules if pack.resolve() not in given)
    untrusted = [pack for pack in packs if runs_python(pack) and not is_trusted(pack)]
    if not untrusted:
        return packs
    assert project.path is not None
    names = ", ".join(os.path.relpath(pack, project.path.parent) for pack in untrusted)
    if ask is None and sys.stdin.isatty() and sys.stderr.isatty():
        ask = _ask
    if ask is not None and ask(f"{project.path} names packs whose Python would run: {names}. Trust them as they are?"):
        trust(untrusted)
        return packs
    fix = f"read it, then `tpu-port rules trust {project.path.parent}`; or name it with --rules"
    raise InputError(f"names packs whose Python nobody trusted: {names}", project.path, fix=fix)


def _ask(question: str) -> bool:
    import click

    from ..safety.shown import visible

    return click.confirm(visible(question), default=False, err=True)


def _remembered() -> dict[str, str]:
    try:
        found = json.loads(read_file(memory()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, InputError, RecursionError):
        return {}  # nothing that can't be read was trusted
    return {path: text for path, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
