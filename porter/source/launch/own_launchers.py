"""Launch files of launchers that packs describe: a YAML, JSON or TOML whose keys are the rows of a table.

A section is a part of the name: `train:` with `learning_rate:` below it is the row `train.learning_rate`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .settings import Setting

NO_OTHERS: Mapping[str, Sequence[str]] = MappingProxyType({})
MOST_SETTINGS = 10_000


def read_own(path: Path, text: str, others: Mapping[str, Sequence[str]]) -> tuple[Setting, ...] | None:
    """The settings of a file that has all the keys of one of `others`; None for another file."""
    data = _data(path, text)
    for table, marks in others.items():
        if marks and isinstance(data, dict) and all(_has(data, mark) for mark in marks):
            found = []
            for name, value in _leaves(data):
                found.append(Setting(name, value, _line(text, name), name, table, path))
                if len(found) == MOST_SETTINGS:
                    break
            return tuple(found)
    return None


def _data(path: Path, text: str) -> object:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix in (".yaml", ".yml"):
            import yaml

            return yaml.safe_load(text) if "&" not in text else None  # aliases can make it huge
    except (ValueError, RecursionError, ImportError):
        return None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "yaml":
            raise
    return None


def _has(data: Mapping[str, Any], mark: str) -> bool:
    found: object = data
    for part in mark.split("."):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True


def _leaves(data: Mapping[str, Any], head: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        name = f"{head}{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{name}.")
        elif value is None or isinstance(value, bool | int | float | str | list | dict):
            yield name, value
        else:
            yield name, str(value)  # a date


def _line(text: str, name: str) -> int:
    """The line of a key, looked for behind the lines of the sections around it; 1 where it isn't found."""
    place = 0
    for part in name.split("."):
        key = re.compile(rf"(?m)^[ \t{{,\[]*[\"']?(?:[\w.]+\.)?{re.escape(part)}[\"']?[ \t]*[:=\]]").search(text, place)
        if key is None:
            return 1
        place = key.end() - 1
    return text.count("\n", 0, place) + 1
