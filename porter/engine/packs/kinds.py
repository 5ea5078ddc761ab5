"""Whether a value is of the kind that a library's annotation names: `list[str] | str | None`.

It is as lenient as the libraries are: None is everywhere, a text alone is a list of texts, and where no collection is
wanted a number is a text, and a text a switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMES: dict[str, tuple[type, ...]] = {
    "int": (int, float),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (),
    "list": (),
    "tuple": (),
    "dict": (),
}
CONFIGURATION = re.compile(r"(?:Config|Arguments)$")  # an object, for which some take its fields
NUMBERS = {"int", "float", "None"}
SCALARS = {*NUMBERS, "bool", "str"}


def is_of_kind(value: object, annotation: str) -> bool:
    """Whether a literal may stand where `annotation` is wanted; True for the classes that aren't known here."""
    parts = [*_parts(annotation, "|")]
    if value is None:
        return True
    if SCALARS.issuperset(parts):
        return isinstance(value, int | float if NUMBERS.issuperset(parts) else int | float | str)
    return any(_fits(value, part) for part in parts)


def _fits(value: object, part: str) -> bool:
    """Whether a value is exactly of one kind, and so are its items."""
    name, _, inside = part.partition("[")
    if name == "Literal":
        return not isinstance(value, dict | list | tuple | set)
    if name not in NAMES:
        return isinstance(value, dict) or CONFIGURATION.search(name) is None
    kinds = [*_parts(inside.removesuffix("]"), ",")] if inside else []
    if isinstance(value, dict):
        return name == "dict" and (not kinds or all(_is_one_of(item, kinds[-1]) for item in value.values()))
    if isinstance(value, list | tuple | set) and name in ("list", "tuple"):
        if name == "tuple" and kinds:
            return len(value) == len(kinds) and all(map(_is_one_of, value, kinds))
        return not kinds or all(_is_one_of(item, kinds[0]) for item in value)
    if name == "list" and kinds:
        return _is_one_of(value, kinds[0])
    return isinstance(value, NAMES[name])


def _is_one_of(value: object, annotation: str) -> bool:
    return any(_fits(value, part) for part in _parts(annotation, "|"))


def _parts(annotation: str, sign: str) -> Iterator[str]:
    """`list[int | str] | None` → `list[int | str]`, `None`."""
    depth, start = 0, 0
    for at, character in enumerate(annotation):
        depth += (character == "[") - (character == "]")
        if character == sign and not depth:
            yield annotation[start:at].strip()
            start = at + 1
    yield annotation[start:].strip()
