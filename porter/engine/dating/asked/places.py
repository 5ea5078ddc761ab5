"""Where a script or its project asks for a release, and what doesn't count of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....releases.history import LIBRARIES, history
from ....releases.versions import Pin, can_meet, exact_of, fits
from ....runtime.facts.field_tables import at_version, version_key
from ....source.launch.launched_with import given_by_launches
from ....source.project.pins import (
    INSTALLED,
    PRINTED,
    SCRIPT,
    Against,
    Asked,
    asked_by_siblings,
    asked_of_project,
    spelled,
)
from ....source.project.printed import Shown
from ....source.project.release_files import Around, around_script
from ....source.project.run_files import files_of_runs, notebooks_beside
from ....source.project.usual.ways import imports_usually
from ...packs.said_by_packs import dated_library, title_of
from ...script.sites import facts_of
from ...script.training import Training
from ..evidence.days import latest_day
from ..evidence.model_families import models_loaded
from ..evidence.used import SOURCES, contradictions, floors, releases_with_all

OF_PIP = (PRINTED, INSTALLED)  # where a library may have brought another release than the script asks for
ASKED = ("what asks for a release of",)
WEIGHED = ("what asks for a release of, and what speaks against it",)
ANOTHER_DAY = ("what runs of another day have left",)
AROUND = ("what lies around the script",)
RUNS = ("what its runs have left",)
SIBLINGS = ("the other notebooks of its project",)
OUT_OF_REACH = ("places that ask for what the script cannot run on",)


def pins_for(porting: Training, library: str) -> Iterator[tuple[str, list[Pin]]]:
    """The places that count, each with what it asks for, in the order of `asked_for`."""
    yield from ((asked.where, asked.pins) for asked in asked_for(porting, library) if not asked.against)


def asked_for(porting: Training, library: str) -> Sequence[Asked]:
    """Every place that asks for a release, in the order in which they count; `against` where the script can't run on
    what is asked for, or on what the same place asks for of another library: its releases are of one day.

    A port asks a hundred times: they are weighed anew only where its sites are others than before."""
    key = (*WEIGHED, library)
    if key not in porting.answers or porting.answers[key][0] != porting.sites:
        porting.answers[key] = [*porting.sites], [*_weighed(porting, library)]
    found: Sequence[Asked] = porting.answers[key][1]
    return found


def _weighed(porting: Training, library: str) -> Iterator[Asked]:
    places = _places_out_of_reach(porting)
    for asked in _asked(porting, library):
        against, other = _out_of_reach(porting, library, asked), ""
        if against is None and asked.where in places:
            other, against = places[asked.where]
            other = other if other != f" beside {spelled(library, asked.pins)}" else ""
        if against is None and asked.left:
            against = _of_another_day(porting).get(asked.where)
        if against is not None and asked.against is None:
            asked = replace(asked, against=against, beside=other)
        yield asked


def beside(porting: Training, library: str) -> dict[str, Mapping[str, str]]:
    """The newest release of `library` that is installed with releases of other libraries of the script's."""
    return {name: rows[library] for name, rows in said_by_tables(porting, "beside").items() if library in rows}


def said_by_tables(porting: Training, key: str) -> dict[str, Mapping[str, Any]]:
    """What the heads of tables say under a key, by their libraries, those of the script's."""
    module = porting.module
    heads = [rule.head for pack in porting.packs for rule in pack.tables if rule.library in module.roots]
    heads = [head for head in heads if imports_usually(module, head["library"]) is not False]
    return {head["library"]: head[key] for head in heads if key in head}


def _places_out_of_reach(porting: Training) -> dict[str, tuple[str, Against]]:
    """The places that ask for nothing of a library that the script can run on, each with what that is (` beside
    transformers==4.51.3`) and what speaks against it: a lock file that came later, another script's requirements, the
    outputs of a run that failed or of older cells."""
    if OUT_OF_REACH not in porting.answers:
        found: dict[str, tuple[str, Against]] = {}
        for library in (*SOURCES, *beside(porting, dated_library(porting.packs))):
            asks: dict[str, list[tuple[str, Against | None]]] = {}
            all_asked = _asked(porting, library)
            for asked in all_asked:
                against = _out_of_reach(porting, library, asked) or _against_script(library, asked, all_asked)
                against = against or _against_outputs(porting, library, asked, all_asked)
                asks.setdefault(asked.where, []).append((f" beside {spelled(library, asked.pins)}", against))
            for where, each in asks.items():
                last, against = each[-1]
                if against is not None and all(wrong is not None for _, wrong in each):
                    found[where] = last, against
        porting.answers[OUT_OF_REACH] = found
    places: dict[str, tuple[str, Against]] = porting.answers[OUT_OF_REACH]
    return places


def _of_another_day(porting: Training) -> dict[str, Against]:
    """What runs have left of another day than what the project asks for now, each with what speaks against it."""
    if ANOTHER_DAY not in porting.answers:
        found: dict[str, Against] = {}
        places = _places_out_of_reach(porting)
        for library in (*LIBRARIES, *beside(porting, dated_library(porting.packs))):
            asks = _asked(porting, library)
            counted = [
                each
                for each in asks
                if not each.left and not each.against and each.where not in places
                if not _out_of_reach(porting, library, each)
            ]
            for asked in (each for each in asks if each.left):
                decides = (each for each in counted if exact_of(each.pins) or not can_meet([*each.pins, *asked.pins]))
                other = next(decides, None)
                if other is not None and not can_meet([*other.pins, *asked.pins]):
                    found[asked.where] = _against(other, library)
        porting.answers[ANOTHER_DAY] = found
    another: dict[str, Against] = porting.answers[ANOTHER_DAY]
    return another


def _out_of_reach(porting: Training, library: str, asked: Asked) -> Against | None:
    """What the script uses and the releases lack that are asked for.

    Nothing where all releases lack something of it.
    """
    uses = "what its cells use: " if asked.shown and porting.module.notebook is not None else "what the script uses: "
    if library in LIBRARIES:
        able = releases_with_all(porting, library)
        fitting = [one for one in history().releases(library) if all(fits(one, *pin) for pin in asked.pins)]
        version = fitting[-1] if fitting else exact_of(asked.pins)  # one of before all that are known
        if not able or version is None or not set(able).isdisjoint(fitting):
            return _needed_by_dated(porting, library, asked)
        return _said(uses, contradictions(porting, library, version))
    dated = dated_library(porting.packs)
    able, exact = releases_with_all(porting, dated), exact_of(asked.pins)
    newest = beside(porting, dated).get(library)
    if newest is None or exact is None or not able:
        return None
    later = [version for first, version in newest.items() if version_key(first) > version_key(exact)]
    limit = min(later, key=version_key, default=None)  # of the next that are known: somewhat newer than it may be
    if limit is None or version_key(able[0]) <= version_key(limit):
        return None
    return _said(uses, contradictions(porting, dated, at_version(newest, exact) or limit))


def _needed_by_dated(porting: Training, library: str, asked: Asked) -> Against | None:
    """What every TRL with all that the script uses needs to be installed, where the one release that is asked for is
    older: another script's requirements. Nothing where the same place asks for TRL, too, or has shown what ran."""
    dated = dated_library(porting.packs)
    exact, able = exact_of(asked.pins), releases_with_all(porting, dated)
    if library == dated or exact is None or asked.shown:
        return None
    if any(each.where == asked.where for each in _asked(porting, dated)):
        return None
    bounds = {release: bound for release in able if (bound := history().least(dated, release, library)) is not None}
    if not bounds or len(bounds) < len(able):
        return None
    first = min(bounds, key=version_key)
    if any(version_key(bound) <= version_key(exact) for bound in bounds.values()):
        return None
    first_able = f"{title_of(porting.packs, dated)} {first}"
    said = f"what {first_able}, the first with all that the script uses, needs: {library}>={bounds[first]}"
    return Against(said, unable=True)


def texts_around(porting: Training) -> list[tuple[str, str]]:
    """The script and the files of its project that declare or install, each with its text."""
    _asked(porting, dated_library(porting.packs))
    around: Around = porting.answers[AROUND]
    return [(SCRIPT, porting.module.text), *around.files]


def _said(uses: str, lacking: list[str]) -> Against | None:
    return Against(f"{uses}{', '.join(lacking[:4])}", unable=True) if lacking else None


def _against(other: Asked, library: str) -> Against:
    """What another place asks for speaks against it."""
    return Against(f"{other.where} ({spelled(library, other.pins)})", exact=exact_of(other.pins) is not None)


def release_of(porting: Training, library: str) -> str | None:
    """The one release that the script or a file beside it pins."""
    return next((exact for _, pins in pins_for(porting, library) if (exact := exact_of(pins)) is not None), None)


def _against_script(library: str, asked: Asked, all_asked: Sequence[Asked]) -> Against | None:
    """What the script itself installs of a library, where another release has run: that was with older cells."""
    own = next((each.pins for each in all_asked if each.where == SCRIPT), None)
    if own is None or not asked.shown or asked.left or asked.where in OF_PIP or can_meet([*own, *asked.pins]):
        return None
    return Against(f"what the script installs: {spelled(library, own)}", exact=exact_of(own) is not None)


def _against_outputs(porting: Training, library: str, asked: Asked, all_asked: Sequence[Asked]) -> Against | None:
    """What only later releases print, in the outputs of the very notebook, where a file beside it asks for an older
    one: it hasn't run on that. What the script itself installs counts more, as `_against_script` has it."""
    if asked.where == SCRIPT or asked.shown or asked.left:
        return None
    for each in all_asked:
        is_told = each.shown and not each.left and all(sign in (">", ">=") for sign, _ in each.pins)
        if not is_told or can_meet([*each.pins, *asked.pins]):
            continue
        if not _out_of_reach(porting, library, each) and not _against_script(library, each, all_asked):
            return _against(each, library)
    return None


def _asked(porting: Training, library: str) -> list[Asked]:
    """What the script and its project ask for; the project is looked through once a port."""
    key = (*ASKED, library)
    if key not in porting.answers:
        module = porting.module
        raw = module.notebook.raw if module.notebook is not None else ""  # its outputs say what pip installed
        shown = [row for pack in porting.packs if not module.roots.isdisjoint(pack.reads) for row in pack.shown]
        script, runs = Path(module.path), _runs(porting, shown)
        if AROUND not in porting.answers:
            libraries = {library for pack in porting.packs for library in pack.reads}
            clouds = facts_of(module).gpu_keyword
            porting.answers[AROUND] = around_script(script, module.text, libraries, clouds)
        around: Around = porting.answers[AROUND]
        asks = [*asked_of_project(script, module.text, library, raw, floors(porting), shown, runs, around)]
        if library in LIBRARIES and not any(exact_of(each.pins) for each in asks):
            asks += _by_siblings(porting, library, script, shown)
        porting.answers[key] = asks
    found_before: list[Asked] = porting.answers[key]
    return found_before


def _by_siblings(porting: Training, library: str, script: Path, shown: Sequence[Shown]) -> Iterator[Asked]:
    """What other notebooks of the project ran on: none of after the script's last commit."""
    if SIBLINGS not in porting.answers:
        porting.answers[SIBLINGS] = [*notebooks_beside(script)]
    day = latest_day(porting)
    for asked in asked_by_siblings(porting.answers[SIBLINGS], library, shown):
        release = exact_of(asked.pins) or ""
        if day is None or history().date(library, release) <= day:
            yield asked


def _runs(porting: Training, shown: Sequence[Shown]) -> list[tuple[str, str]]:
    """What the script's runs have left in its project that may name releases, looked for once a port."""
    if RUNS not in porting.answers:
        files, script = {each.file for each in shown if each.file}, Path(porting.module.path)
        settings, models = given_by_launches(script).files if files else (), {*models_loaded(porting)}
        named = {each.file: each.names_script for each in shown if each.names_script}
        saved_with = {each.file: each.saved_with for each in shown if each.saved_with}
        found = files_of_runs(script, porting.module.text, files, settings, models, saved_with, named) if files else ()
        porting.answers[RUNS] = [*found]
    runs: list[tuple[str, str]] = porting.answers[RUNS]
    return runs
