"""`habits.toml` of a pack: what releases of its library did in training that others didn't.

Where nothing says on which release a script ran, the report tells what it would have trained otherwise on others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.toml_memory import read_toml

FILE = "habits.toml"
LISTS = ("kinds", "where", "without", "unless")


@dataclass(frozen=True)
class Tokenizers:
    """Those of models whose Hub id is like one of `hub`, in small letters, and like none of `hub_not`; not of a script
    in which `unless_written` stands, as it may change what they do.
    """

    name: str
    hub: tuple[str, ...]
    hub_not: tuple[str, ...] = ()
    unless_written: str = ""

    def have(self, model: str, text: str) -> bool:
        """Whether they are those of a `model` of the script `text`."""
        if self.unless_written and self.unless_written in text:
            return False
        own = model.lower()
        return any(fnmatch(own, each) for each in self.hub) and not any(fnmatch(own, each) for each in self.hub_not)


@dataclass(frozen=True)
class Habit:
    """What releases from `since` and before `until` did with trainers of `kinds`: `does`, half a sentence.

    It is of scripts for which every place of `where`, and none of `without`, holds something that matters (not False,
    None, `no`, `constant`, 0, 1 or -1), and that set none of `unless`; of no model whose tokenizers are named `not_of`.
    """

    does: str
    kinds: tuple[str, ...]
    since: str = ""
    until: str = ""
    where: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    not_of: str = ""

    def has(self, release: str) -> bool:
        """Whether that release did it."""
        key = version_key(release)
        return version_key(self.since or "0") <= key and (not self.until or key < version_key(self.until))


@dataclass(frozen=True)
class Habits:
    """Those of a pack; `told` are places of the Recipe whose defaults these tell, or are the same by any name."""

    each: tuple[Habit, ...] = ()
    told: tuple[str, ...] = ()
    tokenizers: tuple[Tokenizers, ...] = ()


def read_habits(pack: Path) -> Habits:
    """The habits.toml of a pack's folder, where it has one. InputError for a row that says nothing."""
    file = pack / FILE
    if not file.is_file():
        return Habits()
    data = read_toml(file)
    tokenizers = tuple(_tokenizers(row, file) for row in data.get("tokenizers", ()))
    each = tuple(_read(row, file) for row in data.get("habit", ()))
    names = {row.name for row in tokenizers}
    for habit in (one for one in each if one.not_of and one.not_of not in names):
        raise InputError(f"has no tokenizers that {habit.not_of}", file, fix=f"write one of {', '.join(sorted(names))}")
    return Habits(each, tuple(data.get("told", ())), tokenizers)


def _tokenizers(row: Mapping[str, Any], file: Path) -> Tokenizers:
    known = {each.name for each in fields(Tokenizers)}
    typed = all(isinstance(value, list if name.startswith("hub") else str) for name, value in row.items())
    if not (set(row) <= known and row.get("name") and row.get("hub") and typed):
        fix = 'write name = "write no start token" and hub = ["maker/model*"]'
        raise InputError(f"has tokenizers of {', '.join(row)}", file, fix=fix)
    found: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Tokenizers(**found)


def _read(row: Mapping[str, Any], file: Path) -> Habit:
    known = {each.name for each in fields(Habit)}
    says = row.get("does") and row.get("kinds") and ("since" in row or "until" in row)
    typed = all(isinstance(value, list if name in LISTS else str) for name, value in row.items())
    if not (set(row) <= known and says and typed):
        fix = 'write does = "rows were shuffled", kinds = ["sft"], and since or until'
        raise InputError(f"has a habit of {', '.join(row)}", file, fix=fix)
    found: dict[str, Any] = {name: tuple(value) if name in LISTS else value for name, value in row.items()}
    return Habit(**found)
