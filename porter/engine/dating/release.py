"""Which release of a library a script was written for, and how that is known.

What the script or a file beside it pins comes first; then the names and keywords that the script uses, of which
releases lost some: it was written for the newest that still had them all, and was out when the script was last
committed, or a notebook last ran.
`porter/releases` says what came and went; what happens to be installed says nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from ...releases.history import history
from ...releases.versions import Pin, exact_of, fits
from ...runtime.facts.field_tables import version_key
from ...source.project.pins import spelled
from ..packs.said_by_packs import dated_library
from ..script.fill_from_tables import plain_version
from ..script.training import Training
from .asked.between_releases import on_its_way
from .asked.places import pins_for, release_of
from .asked.together import beside_others, binds
from .evidence.days import latest_day, said_last_day
from .evidence.used import Evidence, evidence, releases_with_all, short_version

BOUNDED = ("==", "===", "<", "<=", "~=")  # what tells more than a lower bound


@dataclass(frozen=True)
class Date:
    """A release and why: `1.16.0 (newest)`; `pinned` when the source itself says so.

    `allowed` are all that a range of the source's allows up to the next major release, the oldest first; `day` is that
    of the script's last commit, where the release is the newest that was out. `before` is the day on which the release
    came out, where a state on the way to it is pinned: `4.50.0.dev0`, which the tag v4.49.0-Gemma-3 calls itself.
    """

    version: str
    why: str
    pinned: bool = False
    allowed: tuple[str, ...] = ()
    day: datetime.date | None = None
    before: datetime.date | None = None

    def __str__(self) -> str:
        return f"{self.version} ({self.why})"


def date(porting: Training, library: str) -> Date | None:
    """The release of `library` that the script is for; None when neither it nor a file beside it tells."""
    used = evidence(porting, library)
    floor = max((row.new for row in used if row.new and not row.loads), key=version_key, default=None)
    dated = [row for row in used if row.gone and not (floor and version_key(row.gone) <= version_key(floor))]
    dated = [row for row in dated if not (row.acts and _came_before(porting, library, row.gone or ""))]
    return _by_pins(porting, library, floor, dated) or _by_use(porting, library, dated)


def _by_pins(porting: Training, library: str, floor: str | None, dated: list[Evidence]) -> Date | None:
    """What the first place asks for that tells more than a lower bound."""
    places = [*pins_for(porting, library)] or [(where, []) for where in binds(porting, library)]
    able = releases_with_all(porting, library)
    for place, (where, pins) in enumerate(places):
        fitting = [release for release in history().releases(library) if all(fits(release, *pin) for pin in pins)]
        held = ""
        if len(fitting) > 1:
            fitting, held = beside_others(porting, library, where, fitting)
        if not held and not any(sign in BOUNDED for sign, _ in pins):
            continue  # a lower bound alone
        if held and able and set(able).isdisjoint(fitting):
            continue  # what it pins of others is another script's, or of another day
        why = f"{where}: {spelled(library, pins)}{held}"
        found = _unknown(library, pins, why, floor)
        if fitting:
            found = _newest_of(porting, library, pins, fitting, why, dated, places[place + 1 :])
        if found is not None:
            return found
    return None


def _unknown(library: str, pins: Sequence[Pin], why: str, floor: str | None) -> Date | None:
    """What a pin is read as that no known release fits: the release that a state became, or of an older one the first
    that is known, unless the script needs a later one (`floor`)."""
    first, exact = history().releases(library)[0], exact_of(pins)
    if exact is None:
        return None
    if version_key(exact) >= version_key(first):
        known, before = on_its_way(library, exact)
        return Date(known, why, pinned=True, before=before)
    return Date(first, f"{why}, the first that is known", pinned=True) if floor is None else None


def _newest_of(
    porting: Training,
    library: str,
    pins: Sequence[Pin],
    fitting: list[str],
    why: str,
    dated: list[Evidence],
    later: Sequence[tuple[str, list[Pin]]],
) -> Date:
    """The newest of the releases that fit what a place asks for, which had what the script uses, and was out on its
    day; or the one that a `later` place names."""
    if len(fitting) > 1 and dated:
        fitting = [release for release in fitting if _before(release, dated)] or fitting
    if len(fitting) > 1:  # a lock file, or what a run has left, tells which of a range it was
        for other, own in later:
            if (exact := exact_of(own)) in fitting:
                return Date(str(exact), f"{other}: {spelled(library, own)}", pinned=True)
    day = latest_day(porting) if len(fitting) > 1 else None
    out = [release for release in fitting if day and history().date(library, release) <= day]
    if day and out and out[-1] != fitting[-1]:
        fitting, why = out, f"{why}, and what was out on {said_last_day(porting, day)}"
    allowed = tuple(fitting) if len(fitting) > 1 and _ends_at_a_major(pins) else ()
    _, before = on_its_way(library, exact_of(pins) or "")
    return Date(fitting[-1], why, pinned=True, allowed=allowed, before=before)


def _by_use(porting: Training, library: str, dated: list[Evidence]) -> Date | None:
    """The newest release that still had what the script uses, or the newest of its day where that is older."""
    if not dated:
        return None
    row = min(dated, key=lambda row: version_key(row.gone or ""))
    older = [release for release in history().releases(library) if _before(release, [row])]
    gone = short_version(row.gone or "")
    why = f"the newest release with {row.text} ({library} {gone} has none)"
    found = Date(older[-1], why) if older else None
    by_day = of_last_day(porting, library)
    is_older = found is not None and by_day is not None and version_key(by_day.version) < version_key(found.version)
    return by_day if is_older else found


def of_last_day(porting: Training, library: str) -> Date | None:
    """The newest release that was out when the script was last committed or run, and has all that it uses; None where
    nothing tells that day, or where it is the newest of all."""
    day = latest_day(porting)
    if day is None:
        return None
    bounds = [pin for _, pins in pins_for(porting, library) for pin in pins]
    able = [release for release in releases_with_all(porting, library) if all(fits(release, *pin) for pin in bounds)]
    out = [release for release in able if history().date(library, release) <= day]
    known = history().releases(library)
    if able and able[0] == known[0] and not out:
        return Date(
            known[0], f"the first release that is known, which came after {said_last_day(porting, day)}", day=day
        )
    if not out or out[-1] == known[-1]:
        return None
    return Date(out[-1], f"the newest release on {said_last_day(porting, day)}", day=day)


def _came_before(porting: Training, library: str, release: str) -> bool:
    """Whether that TRL was out when what the script uses of transformers came: who installs both on that day has it,
    and a keyword that does nothing in it says no more than that it once did."""
    if library != dated_library(porting.packs):
        return False
    came = [row.new for row in evidence(porting, "transformers") if row.new]
    days = [history().date("transformers", one) for one in came]
    return bool(days) and max(days) >= history().date(library, release)


def _ends_at_a_major(pins: Sequence[Pin]) -> bool:
    """Whether a range goes up to the next major release: nobody has tried all that will be out until then."""
    return not any(sign in BOUNDED and version_key(version)[1:] != (0, 0) for sign, version in pins)


def _before(release: str, rows: list[Evidence]) -> bool:
    return all(version_key(release) < version_key(row.gone or "") for row in rows)


def written_before(porting: Training, library: str, release: str, day: datetime.date) -> bool:
    """Whether the script is of before a `release` that came out on `day`, earlier than all that are known: by its pin,
    or else by its last commit."""
    first = history().releases(library)[0]
    if porting.options.source_trl or plain_version(porting.versions.get(library, "")) != first:
        return False
    pin = release_of(porting, library)
    if pin is not None:
        return version_key(pin) < version_key(release)
    latest = latest_day(porting)
    return latest is not None and latest < day
