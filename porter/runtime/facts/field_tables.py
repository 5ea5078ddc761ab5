"""Read the field tables: what a source library's config class has, and what becomes of each field.

A table is one TOML file for one class (`rules/trl/tables/sft_config.toml`). Porting reads it for fates and
reasons, a ported script's parser reads it for names, types and defaults, so this reader lives beside the
parser and imports nothing but the standard library.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from .toml_memory import read_toml

Fate = Literal["exact", "changed", "dropped", "manual"]
Versions = str | Mapping[str, str] | None

REQUIRED = "REQUIRED"
"""Stands for the default of a field that has none."""

_HARMLESS = "This is what training does anyway."


@dataclass(frozen=True)
class Verdict:
    """What happens to certain literal values of a field when it differs from the field's own fate."""

    literals: tuple[str, ...]
    fate: Fate
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One field of a source class.

    `default` is the Python literal text at the version asked for (the newest when none was), `REQUIRED` for a
    field without one, or None when the table knows no default that old. `since` is the first version that has
    the field, `until` the first that doesn't. `kept_until`: the first version that doesn't take an older name any more.
    `ignored`: the first version that has the field and takes no notice of it, and in what way.
    `whole`: the versions from and until which it takes whole numbers alone.
    `refuses`: values, and the first version that has the field and doesn't take them any more.
    `taken_from`: values, and the first version that takes them.
    `kinds`: the kinds of trainers that act on it, and `otherwise` the fate and reason it has with others.
    """

    name: str
    place: str
    fate: Fate
    target: str
    type: str
    reason: str = ""
    default: str | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    since: str | None = None
    until: str | None = None
    renamed_from: Mapping[str, str] = field(default_factory=dict)
    kept_until: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    values: tuple[Verdict, ...] = ()
    choices: tuple[str, ...] = ()
    bare: str | None = None
    help: str = ""
    ignored: Mapping[str, str] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    refuses: Mapping[str, str] = field(default_factory=dict)
    taken_from: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    otherwise: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ignored(self) -> bool:
        """Whether the class takes no notice of it at the version asked for."""
        return bool(self.ignored) and not self.place

    @property
    def judged_later(self) -> bool:
        """Whether some values can't be ported, so that an expression has to be judged when it has a value."""
        return self.fate == "manual" or any(special.fate == "manual" for special in self.values)

    def refused_from(self, value: Any) -> str | None:
        """The first version that doesn't take `value` any more; None where all that have the field do."""
        return next((version for text, version in self.refuses.items() if _same(value, text)), None)

    def first_with(self, value: Any) -> str | None:
        """The first version that takes `value`; None where all that have the field do."""
        return next((version for text, version in self.taken_from.items() if _same(value, text)), None)

    def verdict(self, value: Any) -> tuple[Fate, str]:
        """Fate and reason of setting the field to `value`: harmless ones are dropped, others may have their own."""
        if any(_same(value, text) for text in self.harmless):
            return "dropped", _HARMLESS
        for special in self.values:
            if any(_same(value, text) for text in special.literals):
                return special.fate, special.reason
        return self.fate, self.reason


@dataclass(frozen=True)
class FieldTable:
    """The fields of one source class. `base` is the table of the class that it extends."""

    name: str
    also: tuple[str, ...]
    library: str
    newest: str
    own: Mapping[str, Row]
    base: FieldTable | None = None
    contemporary: Mapping[str, str] = field(default_factory=dict)
    ruled: dict[object, tuple[tuple[Row, str], ...]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Every import path under which the class is known."""
        return (self.name, *self.also)

    def row(self, name: str) -> Row | None:
        """The row of a field by its name or an older one, whatever the version; None for an unknown name."""
        if name in self._by_name:
            return self._by_name[name]
        return next((row for row in self._by_name.values() if name in row.renamed_from), None)

    def library_of(self, name: str) -> str:
        """The library whose class has the field: the table's own, or that of a class which it extends."""
        return self.library if name in self.own or self.base is None else self.base.library_of(name)

    def rows(self, versions: Versions = None) -> dict[str, Row]:
        """The fields that the class has at `versions`, by the name they have there, in the class's order.

        `versions` is the version of the table's own library or a mapping from libraries to versions; the newest
        where unset. A class that extends another library's takes the release of its day when that isn't given.
        """
        found: dict[str, Row] = {}
        for row, version in self._at(versions):
            if row.since and version_key(version) < version_key(row.since):
                continue
            if row.until and version_key(version) >= version_key(row.until):
                continue
            found[row.name] = row
        return found

    def former(self, versions: Versions = None) -> dict[str, Row]:
        """By an older name that the class still takes beside today's at `versions`: the row of today's."""
        return {
            name: row
            for row, version in self._at(versions)
            for name, until in row.kept_until.items()
            if row.name != name and version_key(version) < version_key(until)
        }

    def defaults(self, versions: Versions = None) -> dict[str, Row]:
        """By place: the row whose default the source acted on at `versions`.

        It includes what a library did before there was a field for it (`completion_only_loss` was False in
        effect before TRL 0.17), as far as the table says so.
        """
        found: dict[str, Row] = {}
        for row, version in self._at(versions):
            gone = row.until and version_key(version) >= version_key(row.until)
            if row.place and row.default not in (None, REQUIRED) and not gone:
                found.setdefault(row.place, row)
        return found

    def version(self, versions: Versions = None) -> str:
        """The version of the table's own library that `versions` stand for."""
        if isinstance(versions, str):
            return versions
        return (versions or {}).get(self.library, self.newest)

    @cached_property
    def _by_name(self) -> dict[str, Row]:
        return {row.name: row for row in self._all()}

    def _all(self) -> Iterator[Row]:
        inherited = list(self.base._all()) if self.base else []
        for row in inherited:
            yield self.own.get(row.name, row)
        yield from (row for name, row in self.own.items() if name not in {old.name for old in inherited})

    def _at(self, versions: Versions) -> tuple[tuple[Row, str], ...]:
        """All rows with the version that rules them, name and default resolved; read once for all that ask."""
        asked = tuple(sorted(versions.items())) if isinstance(versions, Mapping) else versions
        if asked not in self.ruled:
            self.ruled[asked] = tuple(self._resolved(versions))
        return self.ruled[asked]

    def _resolved(self, versions: Versions) -> Iterator[tuple[Row, str]]:
        version = self.version(versions)
        inherited = self.base._at(self._base_versions(versions)) if self.base else ()
        for row, ruling in inherited:
            own = self.own.get(row.name)
            yield (_resolve(own, version), version) if own and not _older(own, version) else (row, ruling)
        names = {row.name for row, _ in inherited}
        yield from ((_resolve(row, version), version) for name, row in self.own.items() if name not in names)

    def _base_versions(self, versions: Versions) -> Versions:
        assert self.base is not None
        given = dict(versions) if isinstance(versions, Mapping) else {}
        version = self.version(versions)
        if self.base.library not in given and version_key(version) < version_key(self.newest):
            day = at_version(self.contemporary, version)
            if day is not None:
                given[self.base.library] = day
        if self.base.library == self.library:
            given[self.library] = version
        return given


def load_table(path: Path, roots: Sequence[Path] = ()) -> FieldTable:
    """Read a table and those it extends, looked up in its own rules folder, in `roots`, then in the built-in one.

    ValueError, naming the file, for a table that isn't well-formed.
    """
    try:
        data = read_toml(path)
        own = {name: _row(name, fields) for name, fields in data["fields"].items()}
        base = None
        if "extends" in data:
            base = find_table(data["extends"], (path.parents[2], *roots))
        return FieldTable(
            data["class"],
            tuple(data.get("also", ())),
            data["library"],
            data["newest"],
            own,
            base,
            data.get("contemporary", {}),
        )
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a field table: {error}") from error


@cache
def find_table(name: str, roots: tuple[Path, ...] = ()) -> FieldTable:
    """The table of the class with this import path. LookupError when no folder has one."""
    file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.rsplit(".", 1)[-1]).lower()
    for root in (*roots, rules_root()):
        for path in sorted(root.glob(f"*/tables/{file}.toml")):
            if name in _names_of(path):
                return load_table(path, roots)
    raise LookupError(f"no field table for {name} ({file}.toml) under {', '.join(map(str, (*roots, rules_root())))}")


def _names_of(path: Path) -> tuple[str, ...]:
    """The import paths of a table's class, from the file alone: what it extends isn't looked up yet."""
    head = read_toml(path)
    return (head.get("class", ""), *head.get("also", ()))


def rules_root() -> Path:
    """The folder of the built-in packs: in a vendored copy of the runtime, else in the wheel or the repository."""
    here = Path(__file__).resolve().parents[1]
    for root in (here / "rules", here.parent / "rules", here.parent.parent / "rules"):
        if (root / "trl" / "tables").is_dir():
            return root
    raise LookupError(f"the rules folder is missing beside {here}; install tpu-port again")


def at_version(history: Mapping[str, str], version: str) -> str | None:
    """The entry of the newest version that isn't after `version`; None when all are."""
    past = [known for known in history if version_key(known) <= version_key(version)]
    return history[max(past, key=version_key)] if past else None


@cache
def version_key(version: str) -> tuple[int, int, int]:
    """A version as numbers to compare; suffixes such as `.dev0` or `rc1` are left out."""
    numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[a-z+]", version, maxsplit=1)[0])][:3]
    return (*numbers, *(0,) * (3 - len(numbers)))  # type: ignore[return-value]


def _row(name: str, data: Mapping[str, Any]) -> Row:
    rest = dict(data)
    defaults = rest.pop("default")
    values = tuple(Verdict(tuple(v["literals"]), v["fate"], v.get("reason", "")) for v in rest.pop("values", ()))
    if not isinstance(rest.get("kinds", []), list) or not isinstance(rest.get("otherwise", {}), dict):
        raise TypeError(f"{name}: kinds is a list, and otherwise has a fate and a reason")
    if rest.get("otherwise", {}).get("fate", "dropped") not in ("dropped", "manual"):
        raise TypeError(f"{name}: otherwise is dropped or manual")
    if len(rest.get("whole", [])) not in (0, 2):
        raise TypeError(f"{name}: whole is two versions, from and until which it takes whole numbers alone")
    if not isinstance(rest.get("refuses", {}), dict):
        raise TypeError(f"{name}: refuses has values, and the versions from which they aren't taken")
    if not isinstance(rest.get("taken_from", {}), dict):
        raise TypeError(f"{name}: taken_from has values, and the versions from which they are taken")
    for key in ("harmless", "choices", "kinds", "whole"):
        rest[key] = tuple(rest.get(key, ()))
    newest = defaults[max(defaults, key=version_key)]
    return Row(name=name, default=newest, defaults=defaults, values=values, **rest)


def _older(row: Row, version: str) -> bool:
    """Whether the class didn't override the inherited field yet."""
    return row.since is not None and version_key(version) < version_key(row.since)


def _resolve(row: Row, version: str) -> Row:
    older = [(since, name) for name, since in row.renamed_from.items() if version_key(version) < version_key(since)]
    name = min(older, key=lambda pair: version_key(pair[0]))[1] if older else row.name
    found = replace(row, name=name, default=at_version(row.defaults, version))
    reason = at_version(row.ignored, version)
    return replace(found, place="", fate="dropped", target="", reason=reason) if reason else found


def _same(value: Any, text: str) -> bool:
    literal = ast.literal_eval(text)
    if isinstance(value, bool) != isinstance(literal, bool) or (value is None) != (literal is None):
        return False
    return bool(literal == value)
