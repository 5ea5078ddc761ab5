"""What releases of a library do otherwise with a script than the one that it is read as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....runtime.facts.field_tables import Row, at_version, version_key
from ...packs.habits import Habit
from ...packs.said_by_packs import dated_library, dating_pack, loader
from ...script.fill_from_tables import config_table, plain_versions, table_of
from ...script.following.made_columns import made_columns
from ...script.porting import Porting
from ...script.sites import Site
from ...script.training import Training
from ..evidence.ids_as_lists import GIVES_MORE, METHOD, calls_counted
from ..evidence.model_families import models_loaded
from ..evidence.used import IN_EFFECT, evidence, short_version

TOLD = "what releases do otherwise"
TEXT, TEXT_FIELD = "text", "data.text_field"  # the column of rows that are texts, and the place that names another
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


def trained_otherwise(porting: Training, site: Site, library: str, releases: Sequence[str], at: int) -> str:
    """What other `releases` do with the script than the one `at` that place, the nearest first: `0.9 to 0.11: ...;
    0.12: ...`. Empty where nothing is known."""
    found = [*_habits(porting, site, library, releases, at), *_defaults(porting, library, releases, at)]
    found += _ignored(porting, library, releases, at)
    found += _counted(porting, library, releases, at)
    found.sort(key=lambda each: each.distance(at))
    shown = "; ".join(f"{_span(releases, each.places)}: {each.does}" for each in found[:MOST])
    return f"{shown}; and {len(found) - MOST} more" if len(found) > MOST else shown


def warn_once(porting: Porting, site: Site, message: str) -> None:
    """The warning of it, of a file with several trainers once."""
    told: set[str] = porting.answers.setdefault(TOLD, set())
    if message not in told:
        told.add(message)
        pack = dating_pack(porting.packs)
        fix = FIX.format(title=pack.title, option=pack.release_option)
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)


def _habits(porting: Training, site: Site, library: str, fitting: Sequence[str], at: int) -> Iterator[Difference]:
    kind = table_of(porting, site).kind
    packs = [pack for pack in porting.packs if library in pack.reads]
    models, text = models_loaded(porting), porting.module.text
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
