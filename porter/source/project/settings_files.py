"""The YAML, JSON and TOML files of a project that a script's settings may come from, and what stands in them."""

from __future__ import annotations

import ast
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
ANCHOR = re.compile(r"&\S")
ALIAS = re.compile(r"(?:^|[\s\[{,:-])\*\w")  # of an anchor of YAML: some dozens make a file of what fills all memory
MOST_ALIASES = 6
MOST_FILES = 40
DEEPEST = 4  # files that name one another
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


def files_named_in(tree: ast.Module) -> list[str]:
    """The files of settings that a module names."""
    return _files_named(ast.unparse(tree))


@lru_cache(MOST_FILES)
def _files_named(text: str) -> list[str]:
    return CONFIG.findall(text)


def _of_named(path: list[str], files: Iterable[str], script: Path) -> Iterator[tuple[str, str]]:
    folders = project_folders(script.absolute(), above=ABOVE)
    for written in files:
        file = next((folder / written for folder in folders if is_file(folder / written)), None)
        file = file or (_below(written, script.absolute().parent) if "/" not in written else None)
        held = _at(path, file) if file is not None and not Path(written).is_absolute() else None
        if held:
            yield held, written


def _below(name: str, folder: Path) -> Path | None:
    """The only file of that name in the folders below the script's: `ROOT / "settings" / "train.yaml"`."""
    found = [*chain.from_iterable(files_in(folder, tuple(f"{'*/' * depth}{name}" for depth in (1, 2))))]
    return found[0] if len(found) == 1 else None


def _of_those_beside(path: list[str], script: Path) -> Iterator[tuple[str, str]]:
    folder = script.absolute().parent
    for file in islice(chain.from_iterable(files_in(folder, BESIDE)), MOST_FILES):
        if held := _at(path, file):
            yield held, str(file.relative_to(folder))


def _at(path: list[str], file: Path, depth: int = 0) -> str:
    held = whole = _loaded(file)
    for key in path:
        held = held.get(key) if isinstance(held, dict) else None
    if isinstance(held, str) or not isinstance(whole, dict) or depth > DEEPEST:
        return held if isinstance(held, str) else ""
    defaults = whole.get("defaults")
    for chosen in defaults if isinstance(defaults, list) else ():
        held = _of_group(path, chosen, file.parent, depth + 1)
        if held:
            return held
    return ""


def _of_group(path: list[str], chosen: Any, folder: Path, depth: int) -> str:
    """What a file holds that another one's `defaults` name: `- model: phi` is model/phi.yaml."""
    if isinstance(chosen, str):
        return _at(path, folder / f"{chosen}.yaml", depth) if chosen != "_self_" else ""
    for group, option in chosen.items() if isinstance(chosen, dict) else ():
        if isinstance(option, str) and str(group).rpartition("/")[2] == path[0]:
            return _at(path[1:], folder / str(group) / f"{option}.yaml", depth)
    return ""


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
    too_many = ANCHOR.search(text) is not None and len(ALIAS.findall(text)) > MOST_ALIASES
    return None if too_many else yaml.safe_load(text)
