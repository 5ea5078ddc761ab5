"""Where a script or its project asks for a release, and what doesn't count of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...releases.history import LIBRARIES, history
from ...runtime.facts.field_tables import version_key
from ...source.project.pins import INSTALLED, Asked, asked_of_project, installed_by
from ..script.training import Training
from .evidence import SOURCES, contradictions, floors, releases_with_all

OUTPUTS = ("what the outputs name",)


def pins_for(porting: Training, library: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield from ((asked.where, asked.pins) for asked in asked_for(porting, library) if not asked.against)


def asked_for(porting: Training, library: str) -> Iterator[Asked]:
    """Every place that asks for a release, in the order in which they count; `against` where the script can't run on
    what it asks for."""
    notebook = porting.module.notebook
    raw = notebook.raw if notebook is not None else ""
    for asked in asked_of_project(Path(porting.module.path), porting.module.text, library, raw, floors(porting)):
        wrong = _not_of_this_run(porting, raw) if asked.where == INSTALLED else _out_of_reach(porting, library, asked)
        if wrong and not asked.against:
            whose = "its cells use" if asked.where == INSTALLED else "the script uses"
            asked = replace(asked, against=f"what {whose}: {', '.join(wrong[:4])}")
        yield asked


def _out_of_reach(porting: Training, library: str, asked: Asked) -> list[str]:
    """What the script uses and no release lacks but those that are asked for: a lock file that came later, say.

    Nothing where all releases lack something of it, or where none that is known is asked for.
    """
    if library not in LIBRARIES:
        return []
    able = releases_with_all(porting, library)
    fitting = [release for release in history().releases(library) if all(meets(release, *pin) for pin in asked.pins)]
    if not able or not fitting or not set(able).isdisjoint(fitting):
        return []
    return contradictions(porting, library, fitting[-1])


def meets(release: str, sign: str, version: str) -> bool:
    """Whether a release is what `sign version` asks for; `==0.8` is any 0.8."""
    one, other = version_key(release), version_key(version)
    if sign in ("==", "==="):
        return one[: version.count(".") + 1] == other[: version.count(".") + 1]
    if sign == "~=":
        return one >= other and one[: version.count(".")] == other[: version.count(".")]
    return {"<": one < other, "<=": one <= other, ">=": one >= other, ">": one > other, "!=": one != other}[sign]


def _not_of_this_run(porting: Training, raw: str) -> list[str]:
    """What the cells use and the libraries lack that a notebook's outputs name: these are of a run that failed."""
    if OUTPUTS not in porting.answers:
        found = {library: installed_by(raw, library) for library in SOURCES}
        wrong = [contradictions(porting, library, version) for library, version in found.items() if version]
        porting.answers[OUTPUTS] = [each for one in wrong for each in one]
    said: list[str] = porting.answers[OUTPUTS]
    return said
