"""What a script would have trained otherwise on the releases that it may have run on, where nothing says on which.

Nobody can tell these apart by the script: its owner can, who has the machine.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....releases.history import LIBRARIES, history
from ....releases.versions import fits
from ....runtime.facts.field_tables import Row, at_version, version_key
from ...packs.habits import Habit
from ...packs.said_by_packs import dated_library, dating_pack, loader, title_of
from ...script.fill_from_tables import config_table, plain_versions, table_of
from ...script.following.made_columns import made_columns
from ...script.porting import Porting
from ...script.sites import Site, facts_of
from ...script.training import Training
from ...steps.step import Phase, step
from ..asked.places import pins_for, release_of
from ..asked.together import beside_others, binds, takes_one_of
from ..evidence.days import latest_day
from ..evidence.ids_as_lists import GIVES_MORE, METHOD, calls_counted
from ..evidence.model_families import models_loaded
from ..evidence.used import IN_EFFECT, SOURCES, evidence, releases_with_all, short_version

READ_AS = "the release that it is read as"  # the key of what is said where nothing differs
TOLD = "what other releases do otherwise"
TEXT, TEXT_FIELD = "text", "data.text_field"  # the column of rows that are texts, and the place that names another
YEAR = datetime.timedelta(days=365)  # before the newest that it may be: who installs, installs what is new
HALF = datetime.timedelta(days=180)  # behind it, where no commit tells when the script was last changed
MOST = 4  # differences that are told
# Values of a place at which there is nothing to do otherwise.
IDLE = ("False", "None", "'no'", "'constant'", "''", "0", "0.0", "1", "1.0", "-1")
UNSAID = (None, "None")  # defaults that say nothing: the library decides when it runs
# Sections of the Recipe whose defaults change what is trained, with what else does.
TRAINS = ("data.", "optimizer.", "schedule.", "loss.", "batch.", "precision.", "model.", "lora.", "rollout.")
TRAINS_TOO = ("run.epochs", "run.max_steps", "run.seed")
FIX = (
    "Say what the GPU machine has: `pip freeze` there gives a requirements.txt to put beside the script; or name the "
    "release of {title} by {option}."
)


@dataclass(frozen=True)
class Difference:
    """What releases of a library, at `places` of those that fit, do otherwise than the one that is read."""

    places: tuple[int, ...]
    does: str

    def distance(self, read: int) -> int:
        return min(abs(place - read) for place in self.places)


@step(Phase.ANSWER, of="trainer")
def say_other_releases(porting: Porting) -> None:
    """A warning where the releases that fit don't all train the same."""
    site = porting.trainer
    if site is None or porting.options.source_trl:
        return
    if not porting.module.roots.isdisjoint(facts_of(porting.module).rewrites_trainers):
        return  # what trains is another library's, by whose day the release was found
    said = [text for library in _libraries(porting, site) if (text := _differences_in(porting, site, library))]
    told: set[str] = porting.answers.setdefault(TOLD, set())  # of a file with several trainers once
    message = " ".join(said)
    if said:
        porting.withdraw(READ_AS)
    if said and message not in told:
        told.add(message)
        pack = dating_pack(porting.packs)
        fix = FIX.format(title=pack.title, option=pack.release_option)
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)


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


def trained_otherwise(porting: Training, site: Site, library: str, releases: Sequence[str], at: int) -> str:
    """What other `releases` do with the script than the one `at` that place, the nearest first: `0.9 to 0.11: ...;
    0.12: ...`. Empty where nothing is known."""
    found = [*_habits(porting, site, library, releases, at), *_defaults(porting, library, releases, at)]
    found += _ignored(porting, library, releases, at)
    found += _counted(porting, library, releases, at)
    found.sort(key=lambda each: each.distance(at))
    shown = "; ".join(f"{_span(releases, each.places)}: {each.does}" for each in found[:MOST])
    return f"{shown}; and {len(found) - MOST} more" if len(found) > MOST else shown


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


def _habits(porting: Training, site: Site, library: str, fitting: Sequence[str], at: int) -> Iterator[Difference]:
    kind = table_of(porting, site).kind
    packs = [pack for pack in porting.packs if library in pack.reads]
    models, text = [*models_loaded(porting)], porting.module.text
    tokenizers = [one for pack in packs for one in pack.habits.tokenizers]
    has = {one.name for one in tokenizers if models and all(one.have(model, text) for model in models)}
    rows = site.argument("train_dataset")
    texts = rows is not None and made_columns(porting.module, rows.node) == {TEXT}
    for habit in (each for pack in packs for each in pack.habits.each):
        if kind not in habit.kinds or habit.has(fitting[at]) or habit.not_of in has or not _concerns(porting, habit):
            continue
        if texts and TEXT_FIELD in habit.unless:
            continue
        places = tuple(place for place, release in enumerate(fitting) if habit.has(release))
        if places:
            yield Difference(places, habit.does)


def _concerns(porting: Training, habit: Habit) -> bool:
    if any(porting.given(place) for place in habit.unless):
        return False
    return all(_matters(porting, place) for place in habit.where) and not any(
        _matters(porting, place) for place in habit.without
    )


def _matters(porting: Training, place: str) -> bool:
    """Whether a place holds something at which there is anything to do otherwise."""
    value = porting.value(place)
    return value is not None and not (value.known and repr(value.literal) in IDLE)


def _defaults(porting: Training, library: str, fitting: Sequence[str], at: int) -> Iterator[Difference]:
    """Defaults of what the script leaves out, of releases one of which is read."""
    rule = config_table(porting)
    if rule is None:
        return
    others = {name: version for name, version in plain_versions(porting).items() if name != library}
    days = rule.head.get("contemporary", {}) if library == dated_library(porting.packs) else {}
    own = loader(porting.packs).library
    tables: list[dict[str, Row]] = []
    for release in fitting:
        beside = {**others, own: at_version(days, release) or others.get(own, "")} if days else others
        tables.append(rule.table.defaults({**beside, library: release}))
    now, told = tables[at], {place for pack in porting.packs for place in pack.habits.told}
    for place in dict.fromkeys(place for table in tables for place in table):
        trains = place.startswith(TRAINS) or place in TRAINS_TOO
        if not trains or place in told or porting.given(place):
            continue
        ours = now[place].default if place in now else None
        others_of: dict[str, list[int]] = {}
        for number, table in enumerate(tables):
            row = table.get(place)
            theirs = row.default if row is not None else None
            if row is not None and theirs not in UNSAID and ours not in UNSAID and theirs != ours:
                others_of.setdefault(f"{row.name}={row.default}", []).append(number)
        for text, places in others_of.items():
            yield Difference(tuple(places), text)


def _ignored(porting: Training, library: str, fitting: Sequence[str], at: int) -> Iterator[Difference]:
    """Keywords of the script's that some of the releases take without effect."""
    for row in evidence(porting, library):
        if row.acts and row.gone and row.text.endswith(IN_EFFECT):
            idle = [version_key(one) >= version_key(row.gone) for one in fitting]
            places = tuple(place for place, each in enumerate(idle) if each is not idle[at])
            name = row.text.removesuffix(IN_EFFECT)
            if places:
                yield Difference(places, f"{name} has an effect" if idle[at] else f"{name} does nothing")


def _counted(porting: Training, library: str, fitting: Sequence[str], at: int) -> Iterator[Difference]:
    """What the script goes by that is a number of tokens in some of the releases."""
    if library != loader(porting.packs).library or not calls_counted(porting):
        return
    keys = [version_key(one) >= version_key(GIVES_MORE) for one in fitting]
    places = tuple(place for place, each in enumerate(keys) if each is not keys[at])
    if places:
        counts = "the tokens" if keys[at] else "the keys of a dictionary, 2"
        yield Difference(places, f"len(...) of {METHOD}'s answer counts {counts}")


def _span(fitting: Sequence[str], places: Sequence[int]) -> str:
    first, last = short_version(fitting[places[0]]), short_version(fitting[places[-1]])
    return first if first == last else f"{first} to {last}"
