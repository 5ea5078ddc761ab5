"""Where a script or its project asks for a release, and what doesn't count of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...releases.history import LIBRARIES, history
from ...releases.versions import fits
from ...source.project.pins import SHOWN, Asked, asked_of_project
from ..script.training import Training
from .evidence import SOURCES, contradictions, floors, releases_with_all

ASKED = ("what asks for a release of",)
OUT_OF_REACH = ("places that ask for what the script cannot run on",)


def pins_for(porting: Training, library: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield from ((asked.where, asked.pins) for asked in asked_for(porting, library) if not asked.against)


def asked_for(porting: Training, library: str) -> Iterator[Asked]:
    """Every place that asks for a release, in the order in which they count; `against` where the script can't run on
    what is asked for, or on what the same place asks for of another library: its releases are of one day."""
    places = _places_out_of_reach(porting)
    for asked in _asked(porting, library):
        wrong = _out_of_reach(porting, library, asked) or places.get(asked.where)
        if wrong and not asked.against:
            whose = "its cells use" if asked.where in SHOWN else "the script uses"
            asked = replace(asked, against=f"what {whose}: {', '.join(wrong[:4])}")
        yield asked


def _places_out_of_reach(porting: Training) -> dict[str, list[str]]:
    """The places that ask for nothing of a library that the script can run on, each with what it uses and that lacks:
    a lock file that came later, another script's requirements, the outputs of a run that failed."""
    if OUT_OF_REACH not in porting.answers:
        found: dict[str, list[str]] = {}
        for library in SOURCES:
            asks: dict[str, list[list[str]]] = {}
            for asked in _asked(porting, library):
                asks.setdefault(asked.where, []).append(_out_of_reach(porting, library, asked))
            found |= {where: wrong[-1] for where, wrong in asks.items() if all(wrong)}
        porting.answers[OUT_OF_REACH] = found
    places: dict[str, list[str]] = porting.answers[OUT_OF_REACH]
    return places


def _out_of_reach(porting: Training, library: str, asked: Asked) -> list[str]:
    """What the script uses and the releases lack that are asked for.

    Nothing where all releases lack something of it, or where none that is known is asked for.
    """
    if library not in LIBRARIES:
        return []
    able = releases_with_all(porting, library)
    fitting = [release for release in history().releases(library) if all(fits(release, *pin) for pin in asked.pins)]
    if not able or not fitting or not set(able).isdisjoint(fitting):
        return []
    return contradictions(porting, library, fitting[-1])


def _asked(porting: Training, library: str) -> list[Asked]:
    """What the script and its project ask for; the project is looked through once a port."""
    key = (*ASKED, library)
    if key not in porting.answers:
        module = porting.module
        raw = module.notebook.raw if module.notebook is not None else ""  # its outputs say what pip installed
        porting.answers[key] = [*asked_of_project(Path(module.path), module.text, library, raw, floors(porting))]
    found: list[Asked] = porting.answers[key]
    return found
