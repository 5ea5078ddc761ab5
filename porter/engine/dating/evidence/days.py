"""The last day on which a script was written or run: what came out later it hasn't run on."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from ....releases.history import history
from ....source.project import commits
from ...packs.said_by_packs import dated_library, loader
from ...script.fill_from_tables import plain_version
from ...script.training import Training

UNTOLD = re.compile(r"\((?:newest table|the newest release beside \w+)\)$")  # of a release that nothing tells


def latest_day(porting: Training, since: datetime.date | None = None) -> datetime.date | None:
    """The day on which the script was last committed, or a notebook last ran where that is earlier; none of before
    `since`, when something came out that it has run on. None where nothing tells it."""
    return commits.latest_day(Path(porting.module.path), since)


def last_day(porting: Training) -> datetime.date | None:
    """That day, once the TRL that the script is for is known: none of before it came out.

    Of a script without TRL, where nothing tells one, the transformers: its newest TRL is none that it has run on.
    """
    library = dated_library(porting.packs)
    said = porting.versions.get(library, "")
    if library not in porting.module.roots and UNTOLD.search(said):
        library = loader(porting.packs).library
        said = porting.versions.get(library, "")
        said = "" if UNTOLD.search(said) else said
    release = plain_version(said)
    return latest_day(porting, history().date(library, release) if release else None)


def said_last_day(porting: Training, day: datetime.date) -> str:
    """Such a day in words: `2025-03-10, when the script was last committed`."""
    return commits.said_day(Path(porting.module.path), day)
