"""Libraries that lie in a script's project: what it imports from there is of the release that the copy names.

`from unsloth.unsloth import FastLanguageModel`, beside a folder `unsloth/unsloth` with `__version__ = "2024.6"`. Or of
the commit at which the project holds a repository of git, a submodule: `sys.path.insert(0, "modules/trl")`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text
from .commits import held_commits

NAMED_IN = ("__init__.py", "version.py", "_version.py", "models/_utils.py")  # of a package's files
RELEASE = re.compile(r"(?m)^__version__\s*(?::\s*str\s*)?=\s*[\"'](\d+(?:\.\d+)+)")
SUBMODULES = ".gitmodules"
HUB = re.compile(r"^(?:ssh://)?git@([\w.]+)[:/]")
SETTING = re.compile(r"(?m)^[ \t]*(path|url)[ \t]*=[ \t]*(\S+?)/?[ \t]*$")
MAX_BYTES = 500_000


def copy_of(folders: Sequence[Path], text: str, library: str) -> tuple[str, str] | None:
    """The file of a copy of `library` that names its release, and the release; None where the script imports none.

    `folders`: the script's own and those above it, where Python may look for modules. A package of that name which
    names no release is another one.
    """
    if library not in text:
        return None
    dotted = re.findall(rf"(?m)^[ \t]*(?:from|import)[ \t]+((?:\w+\.)*{re.escape(library)})\b", text)
    for package in sorted(set(dotted), key=len, reverse=True):
        for folder in folders:
            for name in NAMED_IN:
                file = folder.joinpath(*package.split("."), name)
                if is_file(file) and (release := _release_in(file)) is not None:
                    return file.relative_to(folder).as_posix(), release
    return None


def _release_in(file: Path) -> str | None:
    with contextlib.suppress(OSError, InputError):
        found = RELEASE.search(plain_text(file, MAX_BYTES))
        return found[1] if found else None
    return None


def held_by_git(folders: Sequence[Path], texts: Sequence[str]) -> tuple[str, str] | None:
    """The file that names the submodules of a project and, as pip has them, those that one of `texts` names by their
    path: `git+https://github.com/huggingface/trl@e106972`. None where no text names one.
    """
    file = next((folder / SUBMODULES for folder in folders if is_file(folder / SUBMODULES)), None)
    if file is None:
        return None
    with contextlib.suppress(OSError, InputError):
        sections = (dict(SETTING.findall(section)) for section in plain_text(file, MAX_BYTES).split("[submodule")[1:])
        urls = {each["path"]: HUB.sub(r"https://\1/", each["url"]) for each in sections if len(each) == 2}
        named = {path: url for path, url in urls.items() if any(_names(path, text) for text in texts)}
        commits = held_commits(file.parent) if named else {}
        found = [f"git+{url.removesuffix('.git')}@{commits[path]}" for path, url in named.items() if path in commits]
        return (SUBMODULES, "\n".join(found)) if found else None
    return None


def _names(path: str, text: str) -> bool:
    """Whether a text has a submodule's path, as one or behind `pip install -e`: not `trl` of `from trl import`."""
    before = r"[./\"'\s]" if "/" in path else r"(?:[./\"']|\s-e[ \t]+)"
    return re.search(rf"{before}{re.escape(path)}(?:[/\"'\s]|$)", text) is not None
