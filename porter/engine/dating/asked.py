"""Where a script or its project asks for a release, and what doesn't count of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ...source.project.pins import INSTALLED, Asked, asked_of_project, installed_by
from ..script.training import Training
from .evidence import SOURCES, contradictions, floors

OUTPUTS = ("what the outputs name",)


def pins_for(porting: Training, library: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    yield from ((asked.where, asked.pins) for asked in asked_for(porting, library) if not asked.against)


def asked_for(porting: Training, library: str) -> Iterator[Asked]:
    notebook = porting.module.notebook
    raw = notebook.raw if notebook is not None else ""
    for asked in asked_of_project(Path(porting.module.path), porting.module.text, library, raw, floors(porting)):
        if asked.where == INSTALLED and (wrong := _not_of_this_run(porting, raw)):
            asked = replace(asked, against=f"what its cells use: {', '.join(wrong[:4])}")
        yield asked


def _not_of_this_run(porting: Training, raw: str) -> list[str]:
    """What the cells use and the libraries lack that a notebook's outputs name: these are of a run that failed."""
    if OUTPUTS not in porting.answers:
        found = {library: installed_by(raw, library) for library in SOURCES}
        wrong = [contradictions(porting, library, version) for library, version in found.items() if version]
        porting.answers[OUTPUTS] = [each for one in wrong for each in one]
    said: list[str] = porting.answers[OUTPUTS]
    return said
