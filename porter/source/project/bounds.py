"""Whether two requirements can both be met: `==0.8.6` and `>=0.19` can't, whichever releases there are."""

from __future__ import annotations

from collections.abc import Iterable

from ...releases.versions import Pin, key

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


def _next(version: str) -> tuple[int, ...]:
    """What comes after every release that begins like `version`: (0, 9) after 0.8."""
    *front, last = (int(part) for part in version.lstrip("v").split("."))
    return key(".".join(map(str, [*front, last + 1])))
