"""What a pack is: its tables, its rules, its rewrites, and what it says of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ...errors import InputError
from ...runtime.facts.field_tables import FieldTable, load_table
from ...source.project.printed import Shown
from ...tables import rules_folder
from ..steps.step import Step
from .facts import NONE, Facts, Release
from .habits import Habits, read_habits
from .python_rule import SiteRule

KEPT = 8  # sets of packs of which is kept what follows from them


@dataclass(frozen=True)
class TableRule:
    """A config class or call that a field table reads into the recipe; `role` says what part it plays.

    `names` are the import paths of the class. The rows are read when they are first asked for.
    """

    id: str
    title: str
    role: str
    names: tuple[str, ...]
    head: Mapping[str, Any]
    positional: tuple[str, ...]
    path: Path
    instead_of: tuple[str, ...] = ()
    line: int = 0

    @property
    def claims(self) -> tuple[str, ...]:
        """A class counts as its call: a rule on `acme.Config()` beside a table of `acme.Config` is a clash as well."""
        return tuple(f"{name}()" for name in self.names)

    @property
    def doc(self) -> str:
        return f"`{self.names[0]}`: every keyword has a row in `{self.path.name}`."

    @property
    def library(self) -> str:
        return str(self.head.get("library", ""))

    @property
    def kind(self) -> str:
        """Of a trainer's table: how it trains, which chooses the writer (`sft`; see `porter/target/write.py`)."""
        return str(self.head.get("kind", "sft"))

    @property
    def config(self) -> str:
        """Of a trainer's table: the config class whose defaults hold when the script gives none."""
        return str(self.head.get("config", ""))

    @property
    def hands_on(self) -> str:
        """The class whose keywords the call takes as well, as it hands on what it doesn't know itself."""
        return str(self.head.get("hands_on", ""))

    @property
    def hands_on_with(self) -> frozenset[str]:
        """The keywords without one of which it hands on nothing; none where it always does."""
        return frozenset(self.head.get("hands_on_with", ()))

    @cached_property
    def table(self) -> FieldTable:
        """The rows. InputError when the file is no field table."""
        try:
            return load_table(self.path)
        except (ValueError, LookupError, OSError) as error:
            raise InputError(f"is no field table: {error}", self.path, fix="see docs/packs.md for the format") from None


@dataclass(frozen=True)
class Rewrite:
    """A small idiom beside the recipe.

    `action`: `remove` (the statement goes), `replace` (the expression becomes `replacement`; with a `fix` it is
    also said as a warning), `import` (the name stays and comes from the runtime's `module`, or from `library`),
    `refuse` (a finding for a person), `never` (false on a TPU) and `always` (true there): the condition that asks is
    decided, the branch that runs is kept.
    `releases`: of an imported class, the module's function that makes it as an older release has it.
    `keep_in_calls`: not where it is an argument of a call that stays (`x.to(torch.bfloat16)`).
    """

    id: str
    matches: tuple[str, ...]
    action: str
    replacement: str
    module: str
    imports: tuple[str, ...]
    reason: str
    fix: str
    keep_in_calls: bool
    library: str
    releases: str
    path: Path
    instead_of: tuple[str, ...] = ()
    line: int = 0

    @property
    def claims(self) -> tuple[str, ...]:
        return self.matches

    @property
    def title(self) -> str:
        return f"{', '.join(self.matches)}: {self.reason}"

    @property
    def doc(self) -> str:
        return self.reason


Answering = TypeVar("Answering", bound=TableRule | SiteRule | Rewrite)


@dataclass(frozen=True, eq=False)
class Pack:
    """One loaded pack, equal to itself alone: what follows from packs is kept by them. `families` are its model family
    tables (`models/*.toml`)."""

    name: str
    version: str
    path: Path
    reads: Mapping[str, str]
    tables: tuple[TableRule, ...]
    rules: tuple[SiteRule, ...]
    rewrites: tuple[Rewrite, ...]
    families: tuple[Path, ...]
    facts: Facts = NONE
    evidence: tuple[Release, ...] = ()
    shown: tuple[Shown, ...] = ()
    steps: tuple[Step, ...] = ()  # of its rules' files
    filling: tuple[SiteRule, ...] = ()  # those that say what a table can't
    called: str = ""
    release_option: str = ""  # of the command line, by which its library's release is said

    @property
    def title(self) -> str:
        """How sentences call its library."""
        return self.called or self.name

    @property
    def built_in(self) -> bool:
        return self.path.is_relative_to(rules_folder())

    @cached_property
    def habits(self) -> Habits:
        """What releases of its library did in training that others didn't."""
        return read_habits(self.path)

    @property
    def answering(self) -> tuple[SiteRule | Rewrite, ...]:
        """What answers names and calls; tables are read."""
        return (*self.rules, *self.rewrites)

    @property
    def every_rule(self) -> tuple[TableRule | SiteRule | Rewrite, ...]:
        return (*self.tables, *self.rules, *self.rewrites)


def by_claim(rules: Iterable[Answering]) -> dict[str, Answering]:
    """The rule that answers each name: of two, the one that stands for the other."""
    found: dict[str, Answering] = {}
    for rule in rules:
        for name in rule.claims:
            other = found.get(name)
            if other is None or other.id in rule.instead_of:
                found[name] = rule
    return found
