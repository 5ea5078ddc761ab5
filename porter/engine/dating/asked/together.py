"""Releases that are installed together: what one library takes of another, as its metadata or its pack's tables say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ....releases.history import LIBRARIES, history
from ....releases.versions import Pin, can_meet, exact_of, fits, pins_of
from ....runtime.facts.field_tables import at_version, version_key
from ....source.project.pins import SCRIPT, spelled
from ...script.training import Training
from ..evidence.days import latest_day, said_last_day
from .places import beside, pins_for, release_of, said_by_tables, texts_around


def installed_with(porting: Training, library: str, by_day: bool) -> tuple[str, str] | None:
    """The release of `library` that another one of the script's is installed with, and why; None where nothing tells.

    Beside a release that is pinned or printed its own; else, `by_day`, beside the newest that was out when the script
    was last committed or run.
    """
    day = latest_day(porting) if by_day else None
    days = said_by_tables(porting, "came_out")
    for other, rows in beside(porting, library).items():
        known, said = release_of(porting, other), ""
        if known is None and day is not None:
            out = [one for one, when in days.get(other, {}).items() if when <= str(day)]
            known, said = max(out, key=version_key, default=None), f" of {said_last_day(porting, day)}"
        found = at_version(rows, known) if known is not None else None
        if found is not None:
            return found, f"the newest release beside {other}{said or f' {known}'}"
    return None


def beside_others(porting: Training, library: str, where: str, releases: list[str]) -> tuple[list[str], str]:
    """Those that are installed with what the same place asks for of other libraries, as their metadata says, all where
    none is; and what takes the newest of them away, ` beside huggingface_hub<0.24`.

    An accelerate that another place asks for counts, too: the Trainer ends without one.
    """
    asks = {release: _asks_of(library, release) for release in releases}
    held: list[str] = []
    for other in dict.fromkeys(name for asked in asks.values() for name in asked):
        if all(asked.get(other) == asks[releases[0]].get(other) for asked in asks.values()):
            continue
        for name in dict.fromkeys((other, other.replace("-", "_"))):
            places = [*pins_for(porting, name)]
            own = [found for place, found in places if place == where]
            pins = next(iter(own or [found for _, found in places if other == "accelerate"]), [])
            able = [release for release in releases if can_meet([*asks[release].get(other, []), *pins])]
            if pins and able:
                held += [spelled(name, pins)] if able[-1] != releases[-1] else []
                releases = able
        if other in LIBRARIES:  # what it needs of others, too: of TRL, a transformers that the hub's pin lets in
            known = history().releases(other)
            pins = next((found for place, found in pins_for(porting, other) if place == where), [])
            fitting = [release for release in known if all(fits(release, *pin) for pin in pins)]
            installed, why = beside_others(porting, other, where, fitting) if fitting else (known, "")
            able = [release for release in releases if takes_one_of(installed, library, release, other)]
            if why and able:
                held += [why.removeprefix(" beside ")] if able[-1] != releases[-1] else []
                releases = able
    return releases, f" beside {' and '.join(dict.fromkeys(held))}" if held else ""


def binds(porting: Training, library: str) -> list[str]:
    """The places that pin something which a library of the script's needs, where none asks for itself: `trl` beside
    `huggingface_hub==0.23.4` isn't the newest. A file that names none of what trains is another environment's."""
    roots = [name for name in LIBRARIES if name in porting.module.roots]
    if library not in roots and not any(library in _asks_of(name, history().releases(name)[-1]) for name in roots):
        return []
    texts = dict(texts_around(porting))
    names = [name for name in _needed_by(library) if any(name in text for text in texts.values())]
    found = [where for name in names for where, pins in pins_for(porting, name) if exact_of(pins) is not None]
    other = {where for where, text in texts.items() if where != SCRIPT and not any(name in text for name in LIBRARIES)}
    return [where for where in dict.fromkeys(found) if where not in other]


def takes_one_of(allowed: Sequence[str], library: str, release: str, other: str) -> bool:
    """Whether that release is installed with one of the `allowed` of another library."""
    bounds = _asks_of(library, release).get(other, [])
    return any(all(fits(one, *bound) for bound in bounds) for one in allowed)


@cache
def _needed_by(library: str) -> list[str]:
    """What some release of a library needs that has no history here, in both spellings."""
    asked = [name for release in history().releases(library) for name in _asks_of(library, release)]
    others = [name for name in asked if name not in LIBRARIES]
    return list(dict.fromkeys(spelt for name in others for spelt in (name, name.replace("-", "_"))))


@cache
def _asks_of(library: str, release: str) -> Mapping[str, list[Pin]]:
    """The bounds of other libraries in a release's metadata."""
    found: dict[str, list[Pin]] = {}
    for line in history().requires(library, release):
        name, _, said = line.rpartition("] ")[2].partition(" ")
        if name != "python":
            found[name] = [*found.get(name, []), *pins_of(said)]
    return found
