"""What packs say all together: the facts of names, how libraries are called, the launch files that they know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from ...runtime.facts.field_tables import Row, version_key
from .facts import NONE, Facts
from .pack import Pack, TableRule


def facts_in(packs: Iterable[Pack]) -> Facts:
    """What packs say of names, all together."""
    return reduce(or_, (pack.facts for pack in packs), NONE)


def training_libraries(facts: Facts) -> frozenset[str]:
    """The packages of which a script that trains imports one: of models, of trainers, or whose `backward` it calls."""
    return frozenset((*facts.language_models, *facts.all_trainers_read, *facts.backwards))


def title_of(packs: Iterable[Pack], library: str) -> str:
    """How sentences call a library: as its pack says, else by its name. One of ours is called as ours says."""
    found = sorted((pack for pack in packs if library in pack.reads), key=lambda pack: not pack.built_in)
    return found[0].title if found else library


def dating_pack(packs: Iterable[Pack]) -> Pack:
    """The pack of the library by whose release a script is dated, which an option of the command line names."""
    return next(pack for pack in packs if pack.built_in and pack.release_option)


def dated_library(packs: Iterable[Pack]) -> str:
    """The library by whose release a script is dated."""
    return next(iter(dating_pack(packs).reads))


def newest_of(packs: Iterable[Pack], library: str) -> str:
    """The newest release of a library that the built-in tables know; "" for none."""
    tables = (rule for pack in packs if pack.built_in for rule in pack.tables if rule.library == library)
    return max((str(rule.head["newest"]) for rule in tables), key=version_key, default="")


def loader(packs: Iterable[Pack]) -> TableRule:
    """The table of what loads a model by its name where no other library's class does."""
    return next(rule for pack in packs if pack.built_in for rule in pack.tables if rule.head.get("loads_by_name"))


def type_keywords(packs: Iterable[Pack]) -> tuple[str, ...]:
    """The keywords of a model's type: today's, then older ones."""
    row = type_row(packs)
    return row.name, *row.renamed_from


def type_row(packs: Iterable[Pack]) -> Row:
    """The row of a model's type where it is loaded by its name."""
    return next(row for row in loader(packs).table.own.values() if row.place == "model.dtype")


def owner_of(packs: Iterable[Pack], library: str) -> str:
    """Whose something of a library is: "TRL's", "transformers'"."""
    title = title_of(packs, library)
    return f"{title}'" if title.endswith("s") else f"{title}'s"


def launchers(packs: Sequence[Pack]) -> dict[str, tuple[str, ...]]:
    """The tables of launch files that packs describe, by the class's name: the keys that tell such a file."""
    heads = [rule.head for pack in packs for rule in pack.tables if rule.role == "launch"]
    return {str(head["class"]): tuple(head["marks"]) for head in heads if head.get("marks")}
