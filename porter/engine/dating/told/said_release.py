"""What the report says of the release that a script is read as."""

from __future__ import annotations

from ....recipe import Severity
from ....releases.history import history
from ....releases.versions import can_meet, exact_of, fits
from ....runtime.facts.field_tables import version_key
from ....runtime.facts.releases import release
from ....source.project.pins import spelled
from ...packs.said_by_packs import dated_library, loader, title_of
from ...script.sites import Site
from ...script.training import Training
from ..asked.between_releases import commits_asked
from ..asked.places import asked_for, beside, pins_for, release_of
from ..evidence.days import latest_day, said_last_day
from ..evidence.used import SOURCES, contradictions, releases_with_all
from .other_releases import READ_AS
from .other_statements import OTHERWISE, kind_of


def say_release(porting: Training) -> None:
    """Tell how the release is known where the source doesn't name it, and what doesn't go with it where it does."""
    site = next((site for site in porting.sites if site.role == "trainer"), None)
    library = dated_library(porting.packs)
    said, title = porting.versions.get(library, ""), title_of(porting.packs, library)
    if site is not None:
        _say_older(porting, site)
        _say_passed_over(porting, site)
        _say_otherwise_asked(porting, site)
        _say_contradiction(porting, site)
        _say_commits(porting, site)
        _say_bound(porting, site)
    if site is None or said.endswith("(newest table)"):
        return
    version, _, why = said.partition(" ")
    fix = "Say --source-trl VERSION if it was another."
    _say_siblings(porting, site)
    if "newest release" in why or "first release" in why:
        message = f"Read as {title} {version}, {why[1:-1]}: its defaults, and its way to prepare rows."
        if not site.qualified.startswith(f"{library}.") and library not in porting.module.roots:  # a Trainer alone
            own = loader(porting.packs).library
            if release_of(porting, own) is not None:
                return  # the project says it
            beside = porting.versions.get(own, "").partition(" ")[0]
            message = f"Read as {title_of(porting.packs, own)} {beside}, {why[1:-1]}: its defaults."
            fix = f"Pin {own} if it was another, or say --source-trl VERSION, a {title} of its day."
        porting.find(site.rule, "info", message, fix, site.line, site.column, key=READ_AS)
    elif wrong := contradictions(porting, library, version):
        message = f"{why[1:-1]}: {title} {version} doesn't have {', '.join(wrong[:4])}."
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)


def _say_older(porting: Training, site: Site) -> None:
    """A pin of before all that is known: what such a release did isn't known either."""
    library = site.qualified.partition(".")[0]
    library = library if library in SOURCES else dated_library(porting.packs)
    first = history().releases(library)[0]
    pin = release_of(porting, library)
    if pin is not None and version_key(pin) < version_key(first):
        read = porting.versions.get(library, first).partition(" ")[0]
        title = title_of(porting.packs, library)
        message = (
            f"{library}=={pin} is older than all releases whose ways are known ({first} is the first): "
            f"read as {title} {read}."
        )
        porting.find(site.rule, "warning", message, "Compare what it trains.", site.line, site.column, False)


def _say_passed_over(porting: Training, site: Site) -> None:
    """A command that installs what can't be meant for this script, and outputs of a run of other cells."""
    counted: set[str] = set()
    said: set[str] = set()
    messages: dict[tuple[str, str, str], list[str]] = {}
    for library in dict.fromkeys((*SOURCES, *beside(porting, dated_library(porting.packs)))):
        for asked in asked_for(porting, library):
            if asked.against is None:
                counted.add(asked.where)
            elif asked.sibling:
                continue  # of another script: nothing has to agree
            elif asked.where not in {*counted, *said} and (library in SOURCES or asked.shown):
                said.add(asked.where)
                release = f"{':' if asked.shown else ' asks for'} {spelled(library, asked.pins)}{asked.beside}"
                key = "" if asked.against.unable else f"{OTHERWISE}.{library}"
                messages.setdefault((release, asked.against.said, key), []).append(asked.where)
    for (release, against, key), places in messages.items():
        others = f" and {len(places) - 1} more like it" if len(places) > 1 else ""
        message = f"{places[0]}{others}{release}, which goes against {against}: not read."
        fix = "Say --source-trl VERSION if it is meant."
        porting.find(site.rule, "info", message, fix, site.line, site.column, key=key)


def _say_otherwise_asked(porting: Training, site: Site) -> None:
    """What a file beside a notebook asks for, where the outputs are of a run on another release: that one is read."""
    messages: dict[tuple[str, str], list[str]] = {}
    for library in SOURCES:
        counted = [asked for asked in asked_for(porting, library) if not asked.against]
        ran = counted[0] if counted and counted[0].shown and not counted[0].left else None
        for asked in counted[1:] if ran is not None else ():
            if ran is not None and not asked.shown and not can_meet([*asked.pins, *ran.pins]):
                shown = f"{ran.where} is of {spelled(library, ran.pins)}"
                asks_for = f"{asked.where} asks for {spelled(library, asked.pins)}"
                messages.setdefault((shown, library), []).append(asks_for)
    for (shown, library), asks in messages.items():
        more = f" (and {len(asks) - 1} more)" if len(asks) > 1 else ""
        message = f"{asks[0]}{more}, but {shown}: read as what has run."
        fix = "Say --source-trl VERSION if it is for the other."
        porting.find(site.rule, "info", message, fix, site.line, site.column, key=f"{OTHERWISE}.{library}")


def _say_contradiction(porting: Training, site: Site) -> None:
    """Files of the project that ask for releases which no installation has at once, with the one that was taken."""
    messages: dict[tuple[Severity, str, str], list[str]] = {}
    for library in SOURCES:
        version, _, why = porting.versions.get(library, "").partition(" ")
        asks = [each for each in asked_for(porting, library) if not (each.against or each.shown or each.left)]
        taken = next((each for each in asks if f"{each.where}: {spelled(library, each.pins)}" in why), None)
        if taken is None:
            continue
        for asked in asks:
            own = exact_of(taken.pins) or version  # older than all that are known, maybe
            if asked.where == taken.where or all(fits(own, *pin) for pin in asked.pins):
                continue
            severity: Severity = "info" if kind_of(asked) == kind_of(taken) else "warning"
            other = f"{asked.where} for {spelled(library, asked.pins)}"
            key = (severity, f"{taken.where} asks for {spelled(library, taken.pins)}", library)
            if other not in messages.setdefault(key, []):
                messages[key].append(other)
    for (severity, asks_for, library), others in messages.items():
        message = f"{asks_for}, {' and '.join(others[:3])}: read as the first."
        fix = "Say --source-trl VERSION if it was another, and let the files agree."
        taken_back = f"{OTHERWISE}.{library}" if severity == "warning" else ""
        porting.find(site.rule, severity, message, fix, site.line, site.column, False, taken_back)


def _say_siblings(porting: Training, site: Site) -> None:
    """A release that another notebook of the project has shown: nothing nearer says which."""
    for library in SOURCES:
        version, _, why = porting.versions.get(library, "").partition(" ")
        asked = next((each for each in asked_for(porting, library) if each.sibling and f"({each.where}:" in why), None)
        if asked is not None:
            message = f"Read as {title_of(porting.packs, library)} {version}: {asked.where}, of the same project."
            fix = f"Pin {library} if it was another."
            porting.find(site.rule, "info", message, fix, site.line, site.column)


def _say_bound(porting: Training, site: Site) -> None:
    """A lower bound that a release is read by, where one that was out when the script was last committed, and that it
    lets in, divides a step's loss otherwise."""
    library = loader(porting.packs).library
    version, _, why = porting.versions.get(library, "").partition(" ")
    day = latest_day(porting) if "the project asks for" in why else None
    if day is None or release(None, version).counts_tokens:
        return
    pins = [pin for _, found in pins_for(porting, library) for pin in found]
    able = [one for one in releases_with_all(porting, library) if all(fits(one, *pin) for pin in pins)]
    out = [one for one in able if history().date(library, one) <= day]
    if out and release(None, out[-1]).counts_tokens:
        message = (
            f"Read as {title_of(porting.packs, library)} {version}, the first that {library}>={version} lets in; it "
            f"lets in {out[-1]}, too, the newest on {said_last_day(porting, day)}. That divides a step's loss by its "
            "tokens, this takes the mean of its micro-batches' means."
        )
        fix = f"Pin {library} if the GPU machine had a later one: `pip freeze` there tells it."
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)


def _say_commits(porting: Training, site: Site) -> None:
    """A library that is installed at a commit of git, where nothing says which release that was nearest to."""
    for library in SOURCES:
        own = library in porting.module.roots or not site.qualified.startswith(f"{loader(porting.packs).library}.")
        commit = next(commits_asked(porting, library), None) if own else None
        if commit is None or release_of(porting, library) is not None:
            continue
        version, _, why = porting.versions.get(library, "").partition(" ")
        why = "the newest that is known" if "newest table" in why else why[1:-1]
        read = f"read as {title_of(porting.packs, library)} {version}, {why}"
        message = f"{commit[0]} installs {library} at the commit {commit[1]}, which is no release: {read}."
        fix = "Say --source-trl VERSION: the release that came out behind that commit."
        porting.find(site.rule, "warning", message, fix, site.line, site.column, False)
