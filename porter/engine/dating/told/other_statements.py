"""What a script would have trained otherwise on releases that its project states, too, beside the one that is read.

A lock file, requirements, a command that installs and the outputs of a run may each name another: one of them is read,
and nobody can tell by the files which of them the GPU machine had.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....releases.history import history
from ....releases.versions import fits
from ....source.project.pins import Asked, spelled
from ...packs.said_by_packs import dated_library, loader, title_of
from ...script.porting import Porting
from ...script.sites import Site
from ...script.training import Training
from ...steps.step import Phase, step
from ..asked.places import asked_for
from ..evidence.days import latest_day
from ..evidence.used import SOURCES
from .differences import trained_otherwise, warn_once

OTHERWISE = "what asks for another release"  # and, behind a point, of which library: the key of what is said of it
MOST = 3  # places that are named


@step(Phase.ANSWER, of="trainer")
def say_other_statements(porting: Porting) -> None:
    """A warning where releases that are stated, too, don't train the same."""
    site = porting.trainer
    if site is None or porting.options.source_trl:
        return
    dated, own = dated_library(porting.packs), loader(porting.packs).library
    libraries = [dated] if site.qualified.startswith(f"{dated}.") else []
    for library in [*libraries, own] if site.qualified.startswith(SOURCES) else []:
        message = _said_of(porting, site, library)
        if message:
            porting.withdraw(f"{OTHERWISE}.{library}")
            warn_once(porting, site, message)


def kind_of(asked: Asked) -> str:
    """`requirements`, of requirements-eval.txt, too; else the whole name: two files of a kind may be for two uses."""
    return "requirements" if "requirement" in asked.where.lower() else asked.where


def _said_of(porting: Training, site: Site, library: str) -> str:
    read, _, why = porting.versions.get(library, "").partition(" ")
    known = history().releases(library)
    if read not in known:
        return ""
    others = [*_others(porting, library, read)]
    releases = sorted({read, *(release for release, _ in others)}, key=known.index)
    differs = trained_otherwise(porting, site, library, releases, releases.index(read))
    if not differs:
        return ""
    asks = [f"{each.where} {'is of' if each.shown else 'asks for'} {spelled(library, each.pins)}" for _, each in others]
    asks = list(dict.fromkeys(asks))
    more = f" and {len(asks) - MOST} more" if len(asks) > MOST else ""
    named = f"{', '.join(asks[:MOST])}{more}"
    title = title_of(porting.packs, library)
    return f"Read as {title} {read}, {why[1:-1]}, but {named}, and that trains otherwise. {differs}."


def _others(porting: Training, library: str, read: str) -> Iterator[tuple[str, Asked]]:
    """The other releases that are stated, of a range the newest of the script's last day, each with where."""
    record, day = history(), latest_day(porting)
    asks = [*asked_for(porting, library)]
    counted = next((each for each in asks if not each.against), None)
    if counted is not None and counted.shown and not counted.left:
        return  # it has run
    for asked in asks:
        fitting = [one for one in record.releases(library) if all(fits(one, *pin) for pin in asked.pins)]
        if asked.sibling or read in fitting:
            continue
        if counted is not None and kind_of(asked) == kind_of(counted):
            continue  # of another use: the one that speaks of the script counts
        if asked.against is not None and not asked.against.exact:
            continue  # the script can't run on it, or a range that the project declares leaves it out: it's out of date
        out = [one for one in fitting if day is None or record.date(library, one) <= day]
        if fitting:
            yield (out or fitting[:1])[-1], asked
