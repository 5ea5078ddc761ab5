"""The folders of a script's project, its own and those above it, up to the root of its repository; documents in it."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

from ...files import is_file

SETTLED = 3_000_000_000  # nanoseconds: no file system tells the time of a change worse than to two seconds
MOST = 5  # folders, the script's own and the root's among them
OF_A_ROOT = (".gitignore", ".gitattributes", ".github", "LICENSE", "LICENSE.md", "LICENSE.txt")
OF_A_PACKAGE = ("pyproject.toml", "setup.py", "setup.cfg")
MOST_DOCUMENTS = 24  # documents that are looked into
MOST_FOLDERS = 200
DEEPEST = 3  # folders below the project's
OF_OTHERS = frozenset({"node_modules", "site-packages", "venv", "env", "__pycache__", "third_party", "examples"})
OF_A_REPOSITORY = (".git", "LICENSE", "requirements.txt", *OF_A_PACKAGE)
# `PROJECT_DOCUMENTATION.md`, `docs/environment.md`, `install_env_vps.sh`; no README.md, which may be a model's card.
WANTED = re.compile(
    r"(?i)(?!readme|changelog)(?:.*(?:doc|env|setup|install|report|tech|repro|depend|stack|version).*\.md"
    r"|.*(?:install|setup|env|depend|requirement).*\.sh)"
)


def project_folders(script: Path, *, above: int = 1) -> list[Path]:
    """The script's folder and those above it up to the one that holds `.git`; in a copy without it the one that holds
    what lies at the root of a repository, or of a package, and at least `above` of them.
    """
    folders = list(script.parents[:MOST])
    paths = [str(folder) for folder in folders]
    root = next((place for place, path in enumerate(paths) if os.path.lexists(f"{path}/.git")), None)
    if root is None:
        home = Path.home()
        homes = {str(home), *map(str, home.parents)}
        inner = [path for path in paths if path not in homes]
        copied = (
            place
            for names in (OF_A_ROOT, OF_A_PACKAGE)
            for place, path in enumerate(inner)
            if any(os.path.exists(f"{path}/{name}") for name in names)
        )
        root = max(above, next(copied, above))
    return folders[: root + 1]


def files_in(folder: Path, patterns: tuple[str, ...]) -> Iterator[list[Path]]:
    """For each of `patterns` (`setup.py`, `scripts/**/*.sh`) the files that match it, by name.

    A folder is listed once, and looked through once: it may hold the thousands of files of a dataset.
    """
    names: dict[str, list[str]] = {}
    for pattern in patterns:
        below, _, last = pattern.rpartition("/")
        if "*" in below:
            there = os.path.isdir(folder / below.partition("*")[0])
            yield [path for path in sorted(folder.glob(pattern)) if is_file(path)] if there else []
            continue
        if below not in names:
            names[below] = _matching(folder / below, _any_of(patterns, below))
        yield [path for name in fnmatch.filter(names[below], last) if is_file(path := folder / below / name)]


def _matching(folder: Path, wanted: re.Pattern[str]) -> list[str]:
    return sorted(filter(wanted.match, listed(str(folder))[0]))


def listed(folder: str) -> tuple[Sequence[str], Sequence[str]]:
    """The names of all that lies in a folder, and of the folders among them that are no links; none where it can't be
    listed.

    A folder that has been as it is for some seconds is not listed again: ports of many scripts look through the same.
    """
    try:
        changed = os.stat(folder).st_mtime_ns
        settled = changed < time.time_ns() - SETTLED
        return _listed_at(folder, changed) if settled else _listed(folder)
    except OSError:
        return (), ()


def _listed(folder: str) -> tuple[Sequence[str], Sequence[str]]:
    with os.scandir(folder) as entries:
        found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    return tuple(name for name, _ in found), tuple(name for name, is_folder in found if is_folder)


@lru_cache(maxsize=1024)
def _listed_at(folder: str, changed: int) -> tuple[Sequence[str], Sequence[str]]:
    return _listed(folder)


@cache
def _any_of(patterns: tuple[str, ...], below: str) -> re.Pattern[str]:
    """What matches a name in the folder `below` that one of `patterns` matches."""
    parts = (pattern.rpartition("/") for pattern in patterns)
    return re.compile("|".join(fnmatch.translate(last) for folder, _, last in parts if folder == below))


def file_in(folders: Sequence[Path], name: str) -> Path | None:
    """The file of that name, or path, in the first of the folders that has it."""
    return next((folder / name for folder in folders if is_file(folder / name)), None)


def documents_below(folders: Sequence[Path]) -> Iterator[Path]:
    """Those of a project, the nearest to its top first; none in the folder of a repository or package inside it."""
    top = next((each for each in folders[::-1] if is_projects(each)), folders[0])
    level, looked, found = [str(top)], 0, 0
    for depth in range(DEEPEST + 1):
        below: list[str] = []
        for folder in level[: MOST_FOLDERS - looked]:
            names, inner = listed(folder)
            if depth and any(name in names for name in OF_A_REPOSITORY):
                continue
            for name in sorted(filter(WANTED.fullmatch, names)):
                if found < MOST_DOCUMENTS and is_file(path := Path(folder, name)):
                    found += 1
                    yield path
            below += [f"{folder}{os.sep}{name}" for name in sorted(inner) if _is_own(name)]
        looked += len(level)
        if looked >= MOST_FOLDERS:
            return
        level = below


def is_projects(folder: Path) -> bool:
    """Whether a folder holds what lies at the top of a project: all that is below it is of that project."""
    return any(os.path.lexists(folder / name) for name in (*OF_A_ROOT, *OF_A_REPOSITORY, "README.md"))


def _is_own(name: str) -> bool:
    return not name.startswith(".") and name not in OF_OTHERS
