"""What a run of a script has left in its project that names releases: model cards, configs of adapters, caches.

`outputs/dpo/README.md` with "- TRL: 0.25.1" is the card that TRL's trainer has written: the run had that release.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text
from .commits import last_committed
from .folders import files_in, is_projects, listed, project_folders

MOST_FOLDERS = 400  # that are looked through
DEEPEST = 4  # folders below one another
MOST_FILES = 12
MOST_LOGGED = 200  # runs of a tracker
LONGEST = 200  # characters of a folder's name in the script
MAX_BYTES = 500_000
MOST_NOTEBOOKS = 12
OF_NOTEBOOKS = 6_000_000  # bytes: outputs hold images
SHOWS = re.compile(r"__version__|Successfully installed|Requirement already satisfied|Downloading| patching")
NEAR = datetime.timedelta(days=90)  # between the last commits of a script and of a notebook
BESIDE = ("*.ipynb",)
BELOW = ("*/*.ipynb",)  # in a folder that is a project's
LITERAL = re.compile(r"[\"'](\.{0,2}[\w./-]*\w[\w./-]*)[\"']|(?m:^[ \t]*\w+: +([\w./-]+)[ \t]*$)")  # and a YAML file's
LOADED = re.compile(r"\bfrom_pretrained\(\s*(?:\w+\s*=\s*)?[\"']([^\"'\n]+)[\"']")
BASE = re.compile(
    r"\bbase_model(?:_name_or_path)?[\"']?:[ \t]*[\"']?([\w./-]+)|\[([\w./-]+)\]\(https://huggingface\.co/\2\)"
)
OF_NO_RUN = frozenset({"node_modules", "site-packages", "venv", "env", "__pycache__"})


def files_of_runs(
    script: Path,
    text: str,
    patterns: Collection[str],
    settings: Collection[str],
    models: Collection[str],
    saved_with: Mapping[str, Collection[str]],
    named_in: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """The files of the runs of `script`, whose code is `text`, that match one of `patterns`: each with where it lies in
    the project and what it holds. `settings` are names of files that commands give the script, which say where it
    saves to as its text does.

    First those in a folder that the script names, as it names the one that it saves to; then those of a model that is
    made of one which the script names, or of `models`. Files of the names in `saved_with` come with a model that was
    fetched, too: those count that lie beside the script or above it, or beside one of what a run saves. A pattern with
    a folder in it, `cache/*.py`, is for one beside the script or above it; by `named_in` of some of these another file
    beside each names the script whose run it was.
    """
    folders = project_folders(script.resolve())
    given = (folder / name for name in settings for folder in folders)
    text = "\n".join((text, *(_text(file) or "" for file in dict.fromkeys(given) if is_file(file))))
    words = " ".join((text, *models)).lower()
    places = [*_places(folders, text)]
    logged = (file for each, other in named_in.items() for file in _logged(folders, each, other, script.name))
    beside = _beside(folders, [each for each in patterns if each not in named_in])
    sure = dict.fromkeys((*_saved(places, patterns), *beside, *logged))
    sure = {file: None for file in sure if _is_of_run(file, folders, saved_with.get(file.name))}
    above = (file for folder in folders for file in _in(folder, patterns))
    tops = dict.fromkeys((folders[0], *filter(is_projects, folders)))
    others = chain(_named(places, patterns), above, _below(tops, patterns))
    trained = (file for file in others if _is_of_run(file, folders, saved_with.get(file.name)))
    rest = islice((file for file in dict.fromkeys(trained) if file not in sure), MOST_FILES)
    found = 0
    for file in dict.fromkeys((*sure, *rest)):
        held = _text(file) if found < MOST_FILES else None
        base = BASE.search(held) if held is not None else None
        own = file in sure or (file.name in saved_with and file.parent in folders)
        if held is not None and (own or (base is not None and _model(base[base.lastindex or 0]) in words)):
            found += 1
            yield _shown(file, folders), held


def notebooks_beside(script: Path) -> Iterator[tuple[str, str]]:
    """The names and raw texts of the other notebooks of the project of `script` that may show releases, the nearest
    first; those that were last committed in the same days, where git tells."""
    script = script.resolve()
    folders = project_folders(script)
    places = [(folders[0], BESIDE), *((each, (*BESIDE, *BELOW)) for each in folders if is_projects(each))]
    found = (file for folder, names in places for files in files_in(folder, names) for file in files)
    own = last_committed(script)
    others = (each for each in dict.fromkeys(found) if each != script and not each.parent.name.startswith("."))
    for file in islice(others, MOST_NOTEBOOKS):
        try:
            raw = plain_text(file, OF_NOTEBOOKS)
        except (OSError, InputError):
            continue
        if SHOWS.search(raw) is None:
            continue
        day = last_committed(file)
        if own is None or day is None or abs(own - day) <= NEAR:
            yield file.name, raw


def _is_of_run(file: Path, folders: Sequence[Path], saved_with: Collection[str] | None) -> bool:
    if saved_with is None:
        return True
    names = listed(str(file.parent))[0]
    return file.parent in folders or any(name in names for name in saved_with)


def _saved(places: Iterable[Path], patterns: Collection[str]) -> Iterator[Path]:
    """Files in the folders that a script names, and of their checkpoints."""
    for place in places:
        yield from _in(place, patterns)
        for below in _folders_in(place):
            if below.name.startswith("checkpoint-"):
                yield from _in(below, patterns)


def _named(places: Iterable[Path], patterns: Collection[str]) -> Iterator[Path]:
    """Files in the folders of those that a script names."""
    for place in places:
        for below in _folders_in(place):
            yield from _in(below, patterns)


def _places(folders: Sequence[Path], text: str) -> Iterator[Path]:
    """The folders of the project that literals of a text name; not those of models that it loads."""
    loaded = set(LOADED.findall(text))
    found = dict.fromkeys(quoted or plain for quoted, plain in LITERAL.findall(text))
    names = [name for name in found if name not in loaded and len(name) <= LONGEST]
    for name in names:
        named = [each for folder in folders if os.path.isdir(each := os.path.join(folder, name))]
        places = (Path(os.path.realpath(each)) for each in named)
        yield from (place for place in places if place not in folders and place.is_relative_to(folders[-1]))


def _beside(folders: Sequence[Path], patterns: Collection[str]) -> Iterator[Path]:
    for folder in folders:
        for pattern in patterns:
            below, _, last = pattern.rpartition("/")
            if below:
                yield from _in(folder / below, [last])


def _logged(folders: Sequence[Path], pattern: str, other: str, script: str) -> Iterator[Path]:
    """The files of a tracker's runs of the script, the last run's first."""
    for folder in folders:
        found = sorted(folder.glob(pattern), reverse=True) if os.path.isdir(folder / pattern.partition("/")[0]) else []
        for file in found[:MOST_LOGGED]:
            if is_file(file) and re.search(rf"[\"'/\\]{re.escape(script)}\"", _text(file.with_name(other)) or ""):
                yield file
                break


def _below(tops: Iterable[Path], patterns: Collection[str]) -> Iterator[Path]:
    """Files below the script's folder and those of its project, the nearest first."""
    for top in tops:
        level, looked = [str(top)], 0
        for _ in range(DEEPEST):
            level = [f"{each}{os.sep}{name}" for each in level for name in _kept(listed(each)[1])]
            for each in level[: MOST_FOLDERS - looked]:
                yield from _wanted(each, listed(each)[0], patterns)
            looked += len(level)
            if looked > MOST_FOLDERS:
                break


def _in(folder: Path, patterns: Collection[str]) -> Iterator[Path]:
    return _wanted(str(folder), listed(str(folder))[0], patterns)


def _folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, of checkpoints the last first; no links."""
    return [folder / name for name in _kept(listed(str(folder))[1])]


def _wanted(folder: str, names: Iterable[str], patterns: Collection[str]) -> Iterator[Path]:
    matching = filter(_any_of(tuple(patterns)).match, names)
    return (path for name in sorted(matching) if is_file(path := Path(folder, name)))


def _kept(names: Iterable[str]) -> list[str]:
    kept = [name for name in names if not name.startswith(".") and name not in OF_NO_RUN]
    return sorted(kept, key=_order)[:MOST_FOLDERS]


@lru_cache(maxsize=16)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _order(name: str) -> tuple[str, int]:
    step = re.fullmatch(r"(checkpoint-)(\d+)", name) if name.startswith("checkpoint-") else None
    return (step[1], -int(step[2])) if step else (name, 0)


def _model(name: str) -> str:
    """A model's name without its maker and without what is said of its quantisation: of
    `maker/Qwen3-8B-maker-bnb-4bit` `qwen3-8b`."""
    maker, _, own = name.rstrip("/").lower().rpartition("/")
    return own.removesuffix("-bnb-4bit").removesuffix(f"-{maker}")


def _shown(file: Path, folders: Sequence[Path]) -> str:
    """Where a file lies in the project, from its topmost folder on."""
    holds = [folder for folder in folders if file.is_relative_to(folder)]
    root = next((folder for folder in holds[::-1] if is_projects(folder)), holds[0] if holds else file.parent)
    return file.relative_to(root).as_posix()


def _text(file: Path) -> str | None:
    try:
        return plain_text(file, MAX_BYTES)
    except (OSError, InputError):
        return None
