"""Which accelerate a script ran with: before transformers 4.40 it decided in which order rows came."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from ...releases.history import history
from ...releases.sets import Chosen, choose, within_known
from ...releases.versions import Pin, exact_of, fits, pins_of
from ...runtime.facts.field_tables import version_key
from ...runtime.facts.releases.habits import shuffling_of
from ..script.training import Training
from .asked.places import pins_for
from .evidence.days import latest_day, said_last_day
from .evidence.used import written

SETTLED = "4.40"  # from this transformers on, beside the accelerate of its day, every order is seeded
CHOSEN = ("transformers and accelerate of the row order",)


def accelerate_in(porting: Training, versions: Mapping[str, str]) -> str | None:
    """The accelerate beside the releases of `versions` and how it is known; None where all order rows as today's."""
    pinned, asked = _pinned(porting, versions), _asked(porting, versions)
    if "transformers" not in asked:
        return None
    version, _, why = versions["transformers"].partition(" ")
    if "of the day of TRL" in why:
        if version_key(version) >= version_key(SETTLED):
            return None
        asked["transformers"] = pins_of(f"<{SETTLED}")
    try:
        chosen, day = _chosen(porting, asked)
    except ValueError:  # a release that isn't recorded
        return None
    transformers, accelerate = chosen["transformers"].version, chosen["accelerate"].version
    if all(shuffling_of(transformers, accelerate, processes) == "seeded" for processes in (1, 2)):
        return None
    porting.answers[CHOSEN] = transformers, accelerate
    why = chosen["accelerate"].why
    if pinned and asked["accelerate"] != pinned:
        why = f"pinned: {','.join(map(''.join, pinned))}, the nearest that is known"
    elif day is not None:
        why = f"the newest release on {said_last_day(porting, day)}"
    return f"{accelerate} ({why})"


def _chosen(porting: Training, asked: Mapping[str, Sequence[Pin]]) -> tuple[dict[str, Chosen], datetime.date | None]:
    """The set of releases that is asked for; with the day of the script's last commit where that keeps accelerate from
    being as new as the others allow. It doesn't where one of these came out later: the script has been run since."""
    record, uses = history(), written(porting)
    chosen = choose(uses, asked)
    exact = {library: exact_of(asked.get(library, ())) for library in ("trl", "transformers")}
    known = {library: release for library, release in exact.items() if release is not None}
    # The first that is known may stand for one of before.
    since = [record.date(one, release) for one, release in known.items() if release != record.releases(one)[0]]
    day = latest_day(porting, max(since, default=None))
    if day is None or record.date("accelerate", chosen["accelerate"].version) <= day:
        return chosen, None
    pins = asked.get("accelerate", ())
    releases = (one for one in record.releases("accelerate") if all(fits(one, *pin) for pin in pins))
    out = [one for one in releases if record.date("accelerate", one) <= day]
    return (choose(uses, {**asked, "accelerate": [("==", out[-1])]}), day) if out else (chosen, None)


def _asked(porting: Training, versions: Mapping[str, str]) -> dict[str, Sequence[Pin]]:
    """What is pinned of accelerate, and the releases of the other libraries that are told."""
    pinned = _pinned(porting, versions)
    asked: dict[str, Sequence[Pin]] = {"accelerate": within_known("accelerate", pinned)} if pinned else {}
    for library in _told(porting, versions):
        version, _, why = versions.get(library, "newest table").partition(" ")
        if version[:1].isdigit() and "newest table" not in why:
            asked[library] = pins_of(f"=={version}")
    return asked


def _told(porting: Training, versions: Mapping[str, str]) -> Sequence[str]:
    """The libraries whose releases tell the day: not TRL, where the script has none, and transformers' is known."""
    known = versions.get("transformers", "newest table")
    alone = "trl" not in porting.module.roots and "newest table" not in known and "of the day of TRL" not in known
    return ("transformers",) if alone else ("trl", "transformers")


def _pinned(porting: Training, versions: Mapping[str, str]) -> list[Pin]:
    """What is asked of accelerate: by the place that tells the other releases, else by one that asks for a release."""
    places = [*pins_for(porting, "accelerate")]
    why = f"{versions.get('trl', '')} {versions.get('transformers', '')}"
    beside = [pins for where, pins in places if f"({where}:" in why]
    exact = [pins for _, pins in places if exact_of(pins)]
    return next(iter([*beside, *exact, *(pins for _, pins in places)]), [])


def accelerate_beside(porting: Training) -> str:
    """The accelerate that the script ran with: pinned, or that of the day of the other releases."""
    try:
        return _chosen(porting, _asked(porting, porting.versions))[0]["accelerate"].version
    except ValueError:  # a release that isn't recorded
        return history().releases("accelerate")[-1]


def shuffling_in(porting: Training, processes: int) -> tuple[str, str]:
    """How the source's releases draw the order of its rows, and which they are, in words."""
    chosen: tuple[str, str] | None = porting.answers.get(CHOSEN)
    if chosen is None:
        return "seeded", ""
    transformers, accelerate = chosen
    return shuffling_of(transformers, accelerate, processes), f"transformers {transformers}, accelerate {accelerate}"
