"""Documents and install scripts anywhere in a project that may say which releases it runs on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...files import is_file
from .folders import OF_A_PACKAGE, OF_A_ROOT, listed

MOST = 24  # documents that are looked into
MOST_FOLDERS = 200
DEEPEST = 3  # folders below the project's
OF_OTHERS = frozenset({"node_modules", "site-packages", "venv", "env", "__pycache__", "third_party", "examples"})
OF_A_REPOSITORY = (".git", "LICENSE", "requirements.txt", *OF_A_PACKAGE)
# `PROJECT_DOCUMENTATION.md`, `docs/environment.md`, `install_env_vps.sh`; no README.md, which may be a model's card.
WANTED = re.compile(
    r"(?i)(?!readme|changelog)(?:.*(?:doc|env|setup|install|report|tech|repro|depend|stack|version).*\.md"
    r"|.*(?:install|setup|env|depend|requirement).*\.sh)"
)


def documents_below(folders: Sequence[Path]) -> Iterator[Path]:
    """Those of a project, the nearest to its top first; none in the folder of a repository or package inside it."""
    top = next((each for each in folders[::-1] if _is_projects(each)), folders[0])
    level, looked, found = [str(top)], 0, 0
    for depth in range(DEEPEST + 1):
        below: list[str] = []
        for folder in level[: MOST_FOLDERS - looked]:
            names, inner = listed(folder)
            if depth and any(name in names for name in OF_A_REPOSITORY):
                continue
            for name in sorted(filter(WANTED.fullmatch, names)):
                if found < MOST and is_file(path := Path(folder, name)):
                    found += 1
                    yield path
            below += [f"{folder}{os.sep}{name}" for name in sorted(inner) if _is_own(name)]
        looked += len(level)
        if looked >= MOST_FOLDERS:
            return
        level = below


def _is_projects(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (*OF_A_ROOT, *OF_A_REPOSITORY, "README.md"))


def _is_own(name: str) -> bool:
    return not name.startswith(".") and name not in OF_OTHERS
