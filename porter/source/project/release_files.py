"""The files around a script that may say which releases it runs on: what declares, what installs, what launches it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text
from ...tables import libraries_read, said_by_built_in
from .copies import held_by_git
from .folders import documents_below, files_in, project_folders
from .launchers import images_of, launchers_of
from .requirements import INSTALLS, NEGATED, lists_in

FILES = (
    "requirement*.txt",
    "requirements/*.txt",
    "*requirement*.txt",
    "req*.txt",
    "requirement*.lock",
    "dependenc*.txt",
    "constraint*.txt",
    "*freeze*.txt",
    "pip*.txt",
    "*env*.txt",
    "pyproject.toml",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pixi.lock",
    "Pipfile",
    "environment*.yml",
    "environment*.yaml",
    "setup.py",
    "setup.cfg",
    "env*.yml",
    "env*.yaml",
    "conda*.yml",
    "conda*.yaml",
    "*env*.yml",
    "*env*.yaml",
    "*.sh",
    "scripts/*.sh",
    "Dockerfile*",
    "*.Dockerfile",
    "Makefile",
    "README*",
    "INSTALL*",
    "docker/*requirement*.txt",
    "docker/Dockerfile*",
    "docker/*.Dockerfile",
    ".devcontainer/Dockerfile*",
    "*requirement*.in",
    "*compose*.yml",
    "*compose*.yaml",
    "docker/*compose*.y*ml",
    "cog.yaml",
    "justfile",
    "*.def",
)
# Of these, what stands in a command that installs.
COMMANDS = re.compile(
    r"(\.sh|\.md|\.rst|\.def|Dockerfile|Makefile|justfile|README|INSTALL|compose[\w.-]*\.ya?ml)(\.|$)"
)
OF_REQUIREMENTS = re.compile(r"\bpip3?[ \t][^\n]*?\s(?:-r|--requirements?)[\s=]")
NAMED = re.compile(r"\s(?:-r|--requirements?)[\s=]+[\"']?([\w./-]+\.txt)\b")
MAX_BYTES = 2_000_000  # of a file that is looked into
# What runs a script on what a lock file names, not on the requirements beside it.
LOCKS = {
    "uv.lock": re.compile(r"\buv (?:run|sync)\b(?! --(?:no-project|with))"),
    "poetry.lock": re.compile(r"\bpoetry (?:run|install|shell)\b"),
    "pdm.lock": re.compile(r"\bpdm (?:run|install|sync)\b"),
    "pixi.lock": re.compile(r"\bpixi (?:run|install)\b"),
    "Pipfile.lock": re.compile(r"\bpipenv (?:run|install|sync)\b"),
}


@dataclass(frozen=True)
class Around:
    """What lies around a script that may ask for releases: its project's folders, the names and texts of its files
    that declare or install, of those that launch it, and of those that make the image which it runs in.
    """

    folders: list[Path]
    files: list[tuple[str, str]]
    launchers: list[tuple[str, str]]
    images: list[tuple[str, str]]


def around_script(
    script: Path, text: str, libraries: Collection[str] | None = None, clouds: Collection[str] | None = None
) -> Around:
    """The files around a script with this text, read once for all libraries; one that can't be read is left out.

    `libraries` are those that packs read, `clouds` packages that run functions in images, whose imports are looked
    into (`gpu_keyword` of packs); where None those of the built-in packs.
    """
    libraries = libraries_read() if libraries is None else libraries
    clouds = said_by_built_in("gpu_keyword") if clouds is None else clouds
    files = []
    for file in files_around(script, text, libraries):
        with contextlib.suppress(OSError, InputError):
            files.append((file.name, text_of(file)))
    folders = project_folders(script.resolve())
    files += _documents(folders, {name for name, _ in files}, libraries)
    launchers = [*launchers_of(script)]
    commands = [held for name, held in (*files, *launchers) if COMMANDS.search(name)]
    first = _lock_of([text]) or ("" if any(OF_REQUIREMENTS.search(held) for held in commands) else _lock_of(commands))
    images = images_of(script, text if any(package in text for package in clouds) else "", launchers)
    files.sort(key=lambda file: file[0] != first)
    held = held_by_git(folders, [text, *(held for _, held in files)])
    return Around(folders, [held, *files] if held else files, launchers, [*images])


def _documents(
    folders: Sequence[Path], known: Collection[str], libraries: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Documents in the project's folders that list releases of several libraries, as what they list would be installed
    (`pip install trl==0.24.0 peft==0.17.1`), and shell scripts that install."""
    for file in documents_below(folders):
        with contextlib.suppress(OSError, InputError):
            if file.name in known:
                continue
            if file.suffix == ".sh":
                yield file.name, text_of(file)
                continue
            listed = [words for words in lists_in(text_of(file)) if sum(f" {name}=" in words for name in libraries) > 1]
            if listed:
                yield file.name, "\n".join(listed)


def _lock_of(commands: Sequence[str]) -> str:
    """The lock file that commands run on, `uv run train.py`; an empty string where they name none."""
    return next((name for name, runs in LOCKS.items() if any(runs.search(command) for command in commands)), "")


def files_around(script: Path, text: str = "", libraries: Collection[str] = ()) -> Iterator[Path]:
    """Beside the script, then above it up to the root of its repository; without one in the next folder only.

    Of several of a kind the one first that speaks of the script: `requirements-train.txt` for `e2/train/sft.py`, or
    the one that lists most of the `libraries` that `text` names. Last those that the commands of these files install
    from, wherever they lie in the project (`pip install -r setup/requirements.txt`).
    """
    seen: set[Path] = set()
    script = script.resolve()
    named = [each for each in sorted(libraries) if re.search(rf"(?m)^\s*(?:from|import)\s+{each}\b", text)]
    for folder in project_folders(script):
        below = script.relative_to(folder).parts if script.is_relative_to(folder) else (script.name,)
        words = set(re.split(r"[^a-z0-9]+", "/".join(below).lower().removesuffix(script.suffix)))
        for files in files_in(folder, FILES):
            found = [path for path in files if path not in seen]
            yield from found if len(found) < 2 else sorted(found, key=lambda path: _foreign(path, words, named))
            seen.update(found)
    yield from _installed_from([path for path in seen if COMMANDS.search(path.name)], project_folders(script), seen)


def _installed_from(commands: Iterable[Path], folders: Sequence[Path], seen: set[Path]) -> Iterator[Path]:
    """The files of requirements that commands name, from their own folder or the project's; outside of it none."""
    for file in sorted(commands, key=lambda path: (-len(path.parts), path)):
        try:
            installs = INSTALLS.findall(re.sub(r"\\\r?\n", " ", text_of(file)))
        except (OSError, InputError):
            continue
        for name in (name for command in installs if not NEGATED.search(command) for name in NAMED.findall(command)):
            places = (Path(os.path.realpath(folder / name)) for folder in (file.parent, *folders))
            found = next((path for path in places if path.is_relative_to(folders[-1]) and is_file(path)), None)
            if found is not None and found not in seen:
                seen.add(found)
                yield found


def _foreign(file: Path, words: set[str], named: list[str]) -> tuple[int, int, int]:
    """Less for a file of requirements that is more likely the script's: words of its name, libraries that it lists, no
    further words: `requirements-eval.txt` is for another use."""
    names = set(re.split(r"[^a-z0-9]+", file.name.lower()))
    own = {name for name in names if any(name == word or word.startswith(f"{name}ing") for word in words)}
    try:
        held = text_of(file) if named and not COMMANDS.search(file.name) else ""
    except (OSError, InputError):
        held = ""
    listed = sum(bool(re.search(rf"(?m)^[ \t\-\"']*{library}\b", held)) for library in named)
    return -len(own), -listed, len(names - own)


def text_of(file: Path) -> str:
    return plain_text(file, MAX_BYTES)
