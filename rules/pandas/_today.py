"""Which pandas a script is of, by its pins, its last commit, or the day of the release that it is dated by."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from porter.packs.api import Porting
from porter.packs.script import history, last_day, plain_version, release_of, version_key

RELEASED = datetime.date(2026, 1, 21)  # pandas 3.0.0


def may_be_older(porting: Porting) -> bool:
    """Whether the script uses pandas, and the GPU run may have had one before 3."""
    return "pandas" in porting.module.roots and had_3(porting) is not True


def had_3(porting: Porting) -> bool | None:
    """Whether the GPU run had pandas 3: None where it may have had it."""
    pinned = release_of(porting, "pandas")
    if pinned is not None:
        return version_key(pinned) >= (3,)
    day = last_day(porting) or min(_days(porting), default=None)
    return False if day is not None and day < RELEASED else None


def _days(porting: Porting) -> Iterator[datetime.date]:
    """When the releases came out that the script is dated by."""
    for library in ("trl", "transformers"):
        said = porting.versions.get(library, "")
        version = plain_version(said)
        if not said.endswith(("(newest)", "(newest table)")) and version in history().releases(library):
            yield history().date(library, version)
