"""The YAML, JSON and TOML files of a project that a script's settings may come from, and what stands in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ...files import is_file, read_text
from .folders import files_in, project_folders
from .modules import ABOVE

CONFIG = re.compile(r"""["']([^"'\n]{1,200}\.(?:ya?ml|json|toml))["']""")
ENDINGS = (".yaml", ".yml", ".json", ".toml")
BESIDE = tuple(f"{below}*{ending}" for below in ("", "config/", "configs/", "conf/") for ending in ENDINGS)
ANCHOR = re.compile(r"&\S")  # of YAML, by which a small file may hold what fills all memory
MOST_FILES = 40
LARGEST = 200_000  # characters of a file


def texts_at(path: list[str], text: str, script: Path, named: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """The texts at `path` of the files that the script or its launches (`named`) name, each with the file's name; where
    none of them has any, of those that lie beside the script, unless it names one outside the project."""
    files = dict.fromkeys([*_files_named(text), *named])
    found = list(_of_named(path, files, script))
    if not found and not any(Path(file).is_absolute() for file in files):
        found = list(_of_those_beside(path, script))
    yield from found


def loaded_settings(text: str, script: Path) -> Any:
    """What the one file of settings holds that a text names and that lies in the script's project; None for several."""
    folders = project_folders(script.absolute(), above=ABOVE)
    files = [
        file
        for written in dict.fromkeys(_files_named(text))
        for file in (next((folder / written for folder in folders if is_file(folder / written)), None),)
        if file is not None
    ]
    return _loaded(files[0]) if len(files) == 1 else None


def settings_of(text: str) -> Any:
    """What a text of JSON or YAML holds; None where it is neither."""
    try:
        return _parsed(text, ".json" if text.lstrip().startswith("{") else ".yaml")
    except Exception:  # as of a file
        return None


@lru_cache(MOST_FILES)
def _files_named(text: str) -> list[str]:
    return CONFIG.findall(text)


def _of_named(path: list[str], files: Iterable[str], script: Path) -> Iterator[tuple[str, str]]:
    folders = project_folders(script.absolute(), above=ABOVE)
    for written in files:
        file = next((folder / written for folder in folders if is_file(folder / written)), None)
        held = _at(path, file) if file is not None and not Path(written).is_absolute() else None
        if held:
            yield held, written


def _of_those_beside(path: list[str], script: Path) -> Iterator[tuple[str, str]]:
    folder = script.absolute().parent
    for file in islice(chain.from_iterable(files_in(folder, BESIDE)), MOST_FILES):
        if held := _at(path, file):
            yield held, str(file.relative_to(folder))


def _at(path: list[str], file: Path) -> str:
    held = _loaded(file)
    for key in path:
        held = held.get(key) if isinstance(held, dict) else None
    return held if isinstance(held, str) else ""


def _loaded(file: Path) -> Any:
    """A file of settings; None where it can't be read."""
    try:
        return _parsed(read_text(file, LARGEST), file.suffix)
    except Exception:  # what a stranger's file holds says nothing then
        return None


@lru_cache(MOST_FILES)
def _parsed(text: str, suffix: str) -> Any:
    """What the text holds, which nobody may change: a port asks for many values of the same file."""
    import yaml

    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix == ".json":
        return json.loads(text)
    return None if ANCHOR.search(text) else yaml.safe_load(text)
