"""The releases of all of a script's libraries, as they were installed on one machine.

What the command line says of TRL comes first. What each tells by itself (`release.py`) bounds the others: a TRL is
installed with the transformers of its day, Unsloth with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...releases.history import history
from ...releases.plain_arguments import clashes
from ...releases.uses import uses_of
from ...releases.versions import exact_of, fits
from ...runtime.facts.field_tables import at_version, version_key
from ...source.project.pins import spelled
from ..packs.facts import known_releases, release_by_use
from ..script.fill_from_tables import plain_version
from ..script.training import Training
from .asked.places import asked_for, beside, pins_for, release_of
from .asked.together import installed_with, takes_one_of
from .evidence.days import latest_day, said_last_day
from .evidence.used import SOURCES, contradictions, evidence, floors, releases_with_all
from .release import Date, date, of_last_day
from .row_order import accelerate_in

OF_THE_DAY = "of the day of"


def versions_in(porting: Training) -> dict[str, str]:
    """The version of each source library and how it was found: `1.16.0 (newest table)`."""
    heads = [rule.head for pack in porting.packs for rule in pack.tables if rule.library]
    chosen = porting.options.source_trl
    days: Mapping[str, str] = next((head["contemporary"] for head in heads if "contemporary" in head), {})
    trl = Date(chosen, "--source-trl", pinned=True) if chosen else date(porting, "trl")
    transformers = _of_a_range(porting, date(porting, "transformers"))
    transformers = _of_trls_day(transformers, trl, days)
    told, limit = trl, _beside(porting, "trl")
    trl = _older(trl, limit)
    clash = clashes(porting.module.python, trl.version) if trl is not None else None
    if clash and transformers is not None and not (trl is not None and trl.pinned and transformers.pinned):
        # What the project pins for its other scripts can't be what this one ran on.
        transformers = transformers if version_key(transformers.version) < version_key(clash) else None
    transformers = _of_an_earlier_day(porting, trl, transformers, days)
    if transformers is None and (told is None or told.day is not None) and not _is_told_beside(porting):
        by_day = told or of_last_day(porting, "trl")
        trl = _older(by_day, limit) if "trl" in porting.module.roots else trl
        if limit is None and (by_day is not None or "trl" not in porting.module.roots):  # installed on one day with it
            transformers = of_last_day(porting, "transformers")
    if transformers is not None and (trl is None or not trl.pinned):
        of_its_day = _of_its_day(porting, transformers, days)
        if of_its_day is not None and (trl is None or trl.version != of_its_day.version):
            trl = _older(of_its_day, limit)
    found = _in_words(porting, trl, transformers, days, by_day=told is None or told.day is not None)
    for library, said in (*_beside_ours(porting), *_own_libraries(porting)):
        found.setdefault(library, said)
    if (accelerate := accelerate_in(porting, found)) is not None:
        found["accelerate"] = accelerate
    if (peft := date(porting, "peft")) is not None:
        found["peft"] = str(peft)
    for head in heads:
        found.setdefault(head["library"], f"{head['newest']} (newest table)")
    return found


def _in_words(
    porting: Training, trl: Date | None, transformers: Date | None, days: Mapping[str, str], *, by_day: bool
) -> dict[str, str]:
    """TRL and transformers, each with how it is known; `by_day`: no more tells of TRL than the script's last day."""
    found = {"trl": str(trl)} if trl is not None else {}
    is_known = transformers is not None and (transformers.pinned or transformers.day is not None)
    if transformers is not None and is_known and not (trl and _is_too_old_for(transformers, trl)):
        found["transformers"] = str(transformers)
    own = installed_with(porting, "transformers", by_day)
    is_past = transformers is not None and own is not None and version_key(transformers.version) < version_key(own[0])
    if own is not None and not is_past:
        found.setdefault("transformers", _with_what_it_uses(porting, f"{own[0]} ({own[1]})"))
    day = at_version(days, trl.version) if trl is not None else None
    if trl is not None and day is not None:
        found.setdefault("transformers", _with_what_it_uses(porting, f"{day} (of the day of TRL {trl.version})"))
    return found


def _of_an_earlier_day(
    porting: Training, trl: Date | None, transformers: Date | None, days: Mapping[str, str]
) -> Date | None:
    """The transformers of the day that peft tells, or a pinned accelerate, where it is older and nothing is pinned."""
    if any(found is not None and found.pinned for found in (trl, transformers)):
        return transformers
    early = _of_the_day_of(porting, "peft")
    if early is None and release_of(porting, "accelerate") is not None:
        early = _of_the_day_of(porting, "accelerate")
    early = _with_all(porting, early)
    if early is None or (transformers is not None and version_key(early.version) >= version_key(transformers.version)):
        return transformers
    is_let_in = version_key(early.version) >= version_key(_lower_bound(porting, "transformers"))
    return early if is_let_in and _out_with(early, releases_with_all(porting, "trl"), days) else transformers


def _with_all(porting: Training, found: Date | None) -> Date | None:
    """A transformers that another library's day tells, or the first that has what the script uses, and its models."""
    least = floors(porting).get("transformers")
    if found is None or least is None or version_key(found.version) >= version_key(least):
        return found
    return replace(found, version=least)


def _with_what_it_uses(porting: Training, said: str) -> str:
    """A release that nothing asks for; or the first that a lower bound lets in, or that has what the script uses, and
    its models, where that is later and has lost nothing of it."""
    bound = _lower_bound(porting, "transformers")
    let_in = [release for release in history().releases("transformers") if version_key(release) >= version_key(bound)]
    own = version_key(plain_version(said))
    if let_in and own < version_key(let_in[0]) and own[0] == version_key(let_in[0])[0]:  # no TRL outlived a major
        if not contradictions(porting, "transformers", let_in[0]):
            said = f"{let_in[0]} (the project asks for transformers>={bound})"
    used = [row for row in evidence(porting, "transformers") if row.new]
    row = max(used, key=lambda row: version_key(row.new or ""), default=None)
    if row is None or row.new is None or version_key(plain_version(said)) >= version_key(row.new):
        return said
    if contradictions(porting, "transformers", row.new):
        return said
    return f"{row.new} (the first release with {row.text})"


def _beside_ours(porting: Training) -> Iterator[tuple[str, str]]:
    """The releases of libraries that TRL is installed beside, where they are known."""
    for library in beside(porting, "trl"):
        known = release_of(porting, library)
        for where, pins in pins_for(porting, library) if known is not None else ():
            if any(version == known for _, version in pins):
                yield library, f"{known} ({where}: {library}=={known})"
                break


def _own_libraries(porting: Training) -> Iterator[tuple[str, str]]:
    """The releases of libraries that contributed packs read: pinned, or told by what the script uses."""
    for pack in porting.packs:
        tables = [] if pack.built_in else [rule.table for rule in pack.tables]
        for library in dict.fromkeys(table.library for table in tables if table.library not in (*SOURCES, "peft")):
            own = [table for table in tables if table.library == library]
            evidence = [row for row in pack.evidence if row.name.partition(".")[0] == library]
            for asked in asked_for(porting, library):
                known = known_releases(own, evidence)
                fitting = [release for release in known if all(fits(release, *pin) for pin in asked.pins)]
                exact = exact_of(asked.pins)
                above = all(sign in (">", ">=", "!=") for sign, _ in asked.pins)
                if not asked.against and not above and (exact or fitting):
                    yield library, f"{exact or fitting[-1]} ({asked.where}: {spelled(library, asked.pins)})"
                    break
            if (found := release_by_use(own, evidence, _uses_of(porting, library))) is not None:
                yield library, f"{found[0]} (the newest release with {found[1]})"


def _uses_of(porting: Training, library: str) -> Iterator[tuple[str, list[str]]]:
    """What the script uses of one library of its own, with the keywords that it gives."""
    yield from ((site.qualified, [argument.name for argument in site.arguments]) for site in porting.sites)
    try:
        found = uses_of(porting.module.python, (library,))
    except (SyntaxError, ValueError):  # libcst reads more than Python
        return
    yield from ((use.name, list(use.keywords)) for use in found if not use.guarded)


def _of_a_range(porting: Training, transformers: Date | None) -> Date | None:
    """Of a wide range of transformers what another library's release, which is known, is installed with."""
    own = installed_with(porting, "transformers", by_day=False)
    if transformers is None or own is None or own[0] not in transformers.allowed:
        return transformers
    return replace(transformers, version=own[0], why=f"{transformers.why}, {own[1]}", allowed=())


def _of_trls_day(transformers: Date | None, trl: Date | None, days: Mapping[str, str]) -> Date | None:
    """Of a wide range of transformers what was out in the days of a TRL that is told by itself: both are installed on
    one day."""
    day = at_version(days, trl.version) if trl is not None else None
    if transformers is None or trl is None or day is None or not transformers.allowed:
        return transformers
    until = version_key(day)[:2]
    of_its_day = [release for release in transformers.allowed if version_key(release)[:2] <= until]
    version = of_its_day[-1] if of_its_day else transformers.allowed[0]
    if version == transformers.version:
        return transformers
    return replace(transformers, version=version, why=f"{transformers.why}, of the day of TRL {trl.version}")


def _of_its_day(porting: Training, transformers: Date, days: Mapping[str, str]) -> Date | None:
    """The newest TRL that was out with that transformers and has all that the script uses; beside a pinned one the
    newest that is installed with it on the day of the script's last commit, where git tells that.

    Beside a transformers older than all of these it is the first of them: the one that was written nearest to it.
    """
    able = releases_with_all(porting, "trl")
    asked = transformers.pinned and not transformers.allowed and "transformers" in transformers.why
    known = asked and transformers.version in history().releases("transformers")
    since = history().date("transformers", transformers.version) if known else None
    day = latest_day(porting, since) if asked else None
    if day is not None:
        out = [release for release in able if history().date("trl", release) <= day]
        out = [release for release in out if _works_beside(release, transformers.version)]
        if out:
            said = said_last_day(porting, day)
            return Date(out[-1], f"the newest release beside transformers {transformers.version} on {said}")
    fitting = _out_with(transformers, able, days)
    if transformers.day is not None:
        fitting = [release for release in fitting if history().date("trl", release) <= transformers.day] or fitting[:1]
    if transformers.before is not None:
        fitting = [one for one in fitting if history().date("trl", one) < transformers.before] or fitting[:1]
    newest = transformers.version == history().releases("transformers")[-1]
    if newest or not able or not (fitting or transformers.pinned):
        return None
    if not fitting:
        beside = transformers.why.removeprefix(f"{OF_THE_DAY} ")
        return Date(able[0], f"the first release with all that it uses, beside {beside}")
    of_day = transformers.why if transformers.why.startswith(OF_THE_DAY) else f"{OF_THE_DAY} {transformers.why}"
    return Date(fitting[-1], f"the newest release {of_day}" if transformers.pinned else transformers.why)


def _works_beside(trl: str, transformers: str) -> bool:
    """Whether a TRL is installed with that transformers, and so was each before it: 0.12.2 asks for no least one."""
    record = history()
    before = [one for one in record.releases("trl") if version_key(one) <= version_key(trl)]
    least = (record.least("trl", one, "transformers") or "0" for one in before)
    asked = takes_one_of([transformers], "trl", trl, "transformers")
    return asked and all(version_key(one) <= version_key(transformers) for one in least)


def _older(found: Date | None, limit: Date | None) -> Date | None:
    """What was found, unless it isn't pinned and newer than what another library allows."""
    if found is None or limit is None or found.pinned:
        return found or limit
    return min(found, limit, key=lambda date: version_key(date.version))


def _beside(porting: Training, library: str) -> Date | None:
    """The newest release of `library` that one of the script's is installed with, or the first with all it uses."""
    for other, allowed in beside(porting, library).items():
        known = release_of(porting, other)
        newest = at_version(allowed, known or max(allowed, key=version_key)) or ""
        able = releases_with_all(porting, library)
        if known is not None and able and version_key(able[0]) > version_key(newest):
            newest = able[0]
        return Date(newest, f"the newest release beside {other}{f' {known}' if known else ''}")
    return None


def _is_told_beside(porting: Training) -> bool:
    """Whether a library of the script's that TRL is installed beside has a release of its own that is known."""
    return any(release_of(porting, library) is not None for library in beside(porting, "trl"))


def _lower_bound(porting: Training, library: str) -> str:
    """The greatest lower bound of a library that the script or a file beside it asks for."""
    bounds = [version for _, pins in pins_for(porting, library) for sign, version in pins if sign in (">=", ">", "~=")]
    return max(bounds, key=version_key, default="0")


def _is_too_old_for(transformers: Date, trl: Date) -> bool:
    """Whether a range of transformers, of another file as a rule, is of before what the pinned TRL needs to install."""
    if not trl.pinned or "transformers==" in transformers.why:
        return False
    least = history().least("trl", trl.version, "transformers")
    return least is not None and version_key(transformers.version) < version_key(least)


def _out_with(transformers: Date, able: list[str], days: Mapping[str, str]) -> list[str]:
    day = version_key(transformers.version)
    return [release for release in able if version_key(at_version(days, release) or "0") <= day]


def _of_the_day_of(porting: Training, library: str) -> Date | None:
    """The newest transformers that was out before `library` lost something that the script uses, or pins."""
    found = date(porting, library)
    record = history().record(library)
    if found is None or found.version not in record.releases:
        return None
    until = min((day for day in record.dates if day > record.dates[record.place(found.version)]), default=None)
    theirs = history().record("transformers")
    older = [release for release, day in zip(theirs.releases, theirs.dates, strict=True) if until and day < until]
    why = f"{OF_THE_DAY} {library} {found.version}, {found.why}"
    return Date(older[-1], why, pinned=True) if older else None
