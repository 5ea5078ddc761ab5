"""What packs say all together: the facts of names, how libraries are called, the launch files that they know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from .facts import NONE, Facts
from .packs import Pack


def facts_in(packs: Iterable[Pack]) -> Facts:
    """What packs say of names, all together."""
    return reduce(or_, (pack.facts for pack in packs), NONE)


def title_of(packs: Iterable[Pack], library: str) -> str:
    """How sentences call a library: as its pack says, else by its name."""
    return next((pack.title for pack in packs if library in pack.reads), library)


def owner_of(packs: Iterable[Pack], library: str) -> str:
    """Whose something of a library is: "TRL's", "transformers'"."""
    title = title_of(packs, library)
    return f"{title}'" if title.endswith("s") else f"{title}'s"


def launchers(packs: Sequence[Pack]) -> dict[str, tuple[str, ...]]:
    """The tables of launch files that packs describe, by the class's name: the keys that tell such a file."""
    heads = [rule.head for pack in packs for rule in pack.tables if rule.role == "launch"]
    return {str(head["class"]): tuple(head["marks"]) for head in heads if head.get("marks")}
