"""What a script would have trained otherwise on the releases that it may have run on, where nothing says on which.

Nobody can tell these apart by the script: its owner can, who has the machine.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from ....releases.history import LIBRARIES, history
from ....releases.versions import fits
from ....runtime.facts.field_tables import version_key
from ...packs.said_by_packs import dated_library, loader, title_of
from ...script.porting import Porting
from ...script.sites import Site, facts_of
from ...script.training import Training
from ...steps.step import Phase, step
from ..asked.places import pins_for, release_of
from ..asked.together import beside_others, binds, takes_one_of
from ..evidence.days import latest_day
from ..evidence.used import SOURCES, releases_with_all, short_version
from .differences import trained_otherwise, warn_once

READ_AS = "the release that it is read as"  # the key of what is said where nothing differs
YEAR = datetime.timedelta(days=365)  # before the newest that it may be: who installs, installs what is new
HALF = datetime.timedelta(days=180)  # behind it, where no commit tells when the script was last changed


@step(Phase.ANSWER, of="trainer")
def say_other_releases(porting: Porting) -> None:
    """A warning where the releases that fit don't all train the same."""
    site = porting.trainer
    if site is None or porting.options.source_trl:
        return
    if not porting.module.roots.isdisjoint(facts_of(porting.module).rewrites_trainers):
        return  # what trains is another library's, by whose day the release was found
    said = [text for library in _libraries(porting, site) if (text := _differences_in(porting, site, library))]
    if said:
        porting.withdraw(READ_AS)
        warn_once(porting, site, " ".join(said))


def _libraries(porting: Training, site: Site) -> Iterator[str]:
    """The libraries whose releases decide what this trainer does, of those that nothing pins."""
    dated, own = dated_library(porting.packs), loader(porting.packs).library
    if site.qualified.startswith(f"{dated}.") and release_of(porting, dated) is None:
        yield dated
    if release_of(porting, own) is None and site.qualified.startswith(SOURCES):
        yield own


def _differences_in(porting: Training, site: Site, library: str) -> str:
    version, _, why = porting.versions.get(library, "").partition(" ")
    if why == "(newest table)":
        return ""  # written today, for all that is known
    fitting = releases_that_fit(porting, library)
    read = _read_among(fitting, version)
    if read is None or len(fitting) < 2:
        return ""
    told = trained_otherwise(porting, site, library, fitting, fitting.index(read))
    if not told:
        return ""
    read_as = f"Read as {title_of(porting.packs, library)} {version}, {why[1:-1]}; {short_version(fitting[0])} to"
    return f"{read_as} {short_version(fitting[-1])} fit as well, and some train otherwise. {told}."


def _read_among(releases: Sequence[str], version: str) -> str | None:
    """The release that is read; by `4.46`, known by the day of another library alone, the last of 4.46."""
    is_minor = version.count(".") == 1
    return next((one for one in releases[::-1] if one == version or (is_minor and one.startswith(f"{version}."))), None)


def releases_that_fit(porting: Training, library: str) -> list[str]:
    """The releases that the script may have run on, the oldest first: which have all that it uses, and what bounds
    leave, of the year before its last commit."""
    record = history()
    bounds = [pin for _, pins in pins_for(porting, library) for pin in pins]
    able = [one for one in releases_with_all(porting, library) if all(fits(one, *pin) for pin in bounds)]
    for where in dict.fromkeys([*(where for where, _ in pins_for(porting, library)), *binds(porting, library)]):
        able = beside_others(porting, library, where, able)[0] if able else able
    version = porting.versions.get(library, "").partition(" ")[0]
    read = _read_among(able, version)
    if read is None:
        return []
    own, dated = record.date(library, read), dated_library(porting.packs)
    day = min(latest_day(porting) or own + HALF, _lost_on(porting))
    since = min(max(own - YEAR, _installed_since(porting, library)), own)
    if library != dated and dated in porting.versions and dated in porting.module.roots:
        beside = releases_that_fit(porting, dated) or [porting.versions[dated].partition(" ")[0]]
        first = record.at_day(library, record.date(dated, beside[0]))  # installed with it, on a day when it was out
        since = min(max(since, record.record(library).dates[first]), own)
        able = [one for one in able if any(takes_one_of([one], dated, each, library) for each in beside)]
    return [one for one in able if since <= record.date(library, one) <= max(day, own)]


def _installed_since(porting: Training, library: str) -> datetime.date:
    """The day of the newest release of a library that was out when the newest of those came out which are pinned:
    who installed that one, installed no older one of this."""
    record, days = history(), [datetime.date.min]
    for other in LIBRARIES:
        release = release_of(porting, other)
        known = record.releases(other)
        if release is not None and version_key(known[0]) <= version_key(release) <= version_key(known[-1]):
            days.append(record.date(other, release))
    if len(days) == 1:
        return days[0]
    return record.record(library).dates[record.at_day(library, max(days))]


def _lost_on(porting: Training) -> datetime.date:
    """The day on which a library first lost something that the script uses: nothing was installed later."""
    days = [datetime.date.max]
    for library in SOURCES:
        able, known = releases_with_all(porting, library), history().releases(library)
        later = [release for release in known if able and version_key(release) > version_key(able[-1])]
        days += [history().date(library, release) for release in later[:1]]
    return min(days)
