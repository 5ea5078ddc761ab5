"""Versions: compared, and tested against what a requirement asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

Pin = tuple[str, str]
"""A sign and a version: (">=", "4.40")."""


@cache
def key(version: str) -> tuple[int, ...]:
    """The numbers of a version, without trailing zeros and suffixes such as `.dev0` or `rc1`."""
    numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[a-z+]", version.lstrip("v"), maxsplit=1)[0])]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


@cache
def fits(release: str, sign: str, version: str) -> bool:
    """Whether a release is what `sign version` asks for: `==0.8` and `==0.8.*` take 0.8 and 0.8.0, the latter 0.8.6."""
    one, other = key(release), key(version)
    if version.endswith(".*"):
        begins = [int(part) for part in re.findall(r"\d+", version)]
        same = [*one, *[0] * len(begins)][: len(begins)] == begins
        return same if sign.startswith("=") else not same
    if sign == "~=":
        begins = [int(part) for part in re.findall(r"\d+", version)][:-1]
        return one >= other and [*one, *[0] * len(begins)][: len(begins)] == begins
    return {"==": one == other, "===": one == other, "!=": one != other}.get(
        sign, {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}.get(sign, True)
    )


def pins_of(text: str) -> list[Pin]:
    """The bounds of a requirement: `>=4.31,<5` or `trl[peft]==0.8.6`; none for what isn't one."""
    return [(sign, version) for sign, version in re.findall(r"(===?|~=|<=?|>=?|!=)\s*v?(\d[\w.*]*)", text)]


END = (10**9,)


def can_meet(pins: Iterable[Pin]) -> bool:
    """Whether some version lies within all bounds; `!=` takes none away."""
    least: tuple[int, ...] = (0,)
    end: tuple[int, ...] = END
    for sign, version in pins:
        first, behind = key(version), _next(version)
        if sign in ("==", "===", ">=", "~="):
            least = max(least, first)
        elif sign == ">":
            least = max(least, behind)
        if sign in ("==", "===", "<="):
            end = min(end, behind)
        elif sign == "<":
            end = min(end, first)
        elif sign == "~=":
            end = min(end, _next(version.rpartition(".")[0] or version))
    return least < end


@cache
def _next(version: str) -> tuple[int, ...]:
    """What comes after every release that begins like `version`: (0, 9) after 0.8."""
    *front, last = (int(part) for part in re.findall(r"\d+", re.split(r"[a-z+]", version.lstrip("v"), maxsplit=1)[0]))
    return key(".".join(map(str, [*front, last + 1])))


def exact_of(pins: Sequence[Pin]) -> str | None:
    """The one release that pins ask for; None for a range."""
    return next((version for sign, version in pins if sign.startswith("==")), None)
