"""Releases of libraries that a script or its project asks for: in its text, in what a notebook installed, beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ...releases.versions import Pin, can_meet, exact_of
from .copies import copy_of
from .launchers import containers_of
from .printed import Shown, left_by, printed_by, shown_by, told_by
from .release_files import COMMANDS, Around, around_script
from .requirements import (
    PIP_INSTALL,
    VERSION,
    all_in_file,
    in_command,
    in_commands,
    in_file,
    requirement,
    revisions_in,
    without_messages,
)

UPGRADES = re.compile(r"(?:^|\s)(?:-\w*U\w*|--upgrade)\s|\bgit\+")
SCRIPT = "the script"
INSTALLED = "what the notebook installed"
PRINTED = "what the notebook printed"
USES = "what the script uses"


@dataclass(frozen=True)
class Against:
    """What speaks against a release that is asked for: the script is `unable` to run on it, or something else asks for
    another, for an `exact` one or a range.
    """

    said: str
    unable: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Asked:
    """Where a release is asked for and how; what speaks `against` it, None where it counts, or against what stands
    `beside` it.

    `shown`: not asked for, but what the script has run on, as its outputs show; `left`: as files of its runs do;
    `sibling`: as those of another notebook of its project, all that name a release of the library.
    """

    where: str
    pins: list[Pin]
    against: Against | None = None
    shown: bool = False
    left: bool = False
    beside: str = ""
    sibling: bool = False


def pins_of_project(
    script: Path, text: str, library: str, notebook: str = "", floors: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, list[Pin]]]:
    """Where a version of `library` is asked for and how, as `asked_of_project` has it, without what doesn't count."""
    asked = asked_of_project(script, text, library, notebook, floors)
    yield from ((each.where, each.pins) for each in asked if not each.against)


def asked_of_project(
    script: Path,
    text: str,
    library: str,
    notebook: str = "",
    floors: Mapping[str, str] = MappingProxyType({}),
    shown: Sequence[Shown] = (),
    runs: Sequence[tuple[str, str]] = (),
    around: Around | None = None,
) -> Iterator[Asked]:
    """What asks for a version of `library`: a copy of it in the project that the script imports, the script, what
    installs into the image that it runs in, then the files beside it and above that declare it, then what its runs have
    left that names it (`runs`, of `files_of_runs`), then commands that install it, the last of a file first.

    `notebook` is the raw text of the one that `text` is from: its outputs say what its cells printed, what pip
    installed and what libraries print (`shown`). `floors` are the oldest releases that the script can run on: a command
    that installs an older one of any of these, or one that a declared range leaves out, is about something else.
    `around`: what `around_script` has found, where it was asked before.
    """
    around = around or around_script(script, text)
    own = _in_script(text, library)
    upgrades = not own and _upgrades(text, library)
    newest = Against(f"the script's own command, which installs the newest {library}") if upgrades else None
    if copied := copy_of(around.folders, text, library):
        yield Asked(copied[0], [("==", copied[1])])
    if own:
        yield Asked(SCRIPT, own)
    yield from _in_outputs(notebook, library, shown) if notebook else ()
    for name, words in around.images:
        if pins := requirement(words, library, start="[\"']"):
            yield Asked(name, pins)
    commands: list[tuple[str, str]] = []
    declared: list[tuple[str, str]] = []
    for where, held in around.files:
        if COMMANDS.search(where):
            commands.append((where, held))
            continue
        declared.append((where, held))
        yield from (Asked(where, found, newest) for found in all_in_file(held, library))
    for where, release in containers_of(script, library, around.launchers):
        minor = release.count(".") < 2  # `4.44` is the newest of these
        yield Asked(where, [("~=", f"{release}.0") if minor else ("==", release)])
    for where, release in left_by(runs, library, shown):
        yield Asked(where, [("==", release)], shown=True, left=True)
    bounds: dict[str, list[tuple[str, list[Pin]]]] = {}
    for where, text in sorted(commands, key=lambda file: script.name not in file[1]):
        for command, found in in_commands(text, library):
            if not bounds:
                declared = [(name, held) for name, held in declared if not _is_too_old(held, floors)]
            for other in {library: "", **floors}:
                if other not in bounds:
                    ranges = [(name, in_file(held, other)) for name, held in declared]
                    least = [(USES, [(">=", floors[other])])] if other in floors else []
                    bounds[other] = [*least, *((name, pins) for name, pins in ranges if pins)]
            against = (
                Against(f"{name} ({spelled(other, bound)})", unable=name == USES, exact=exact_of(bound) is not None)
                for other in {library: "", **floors}
                for name, bound in bounds[other]
                if not can_meet([*in_command(command, other), *bound]) and can_meet(bound)
            )
            yield Asked(where, found, newest or next(against, None))


def _is_too_old(declared: str, floors: Mapping[str, str]) -> bool:
    """Whether a file declares a release of before what the script can run on: it's another script's."""
    pins = ((in_file(declared, library), least) for library, least in floors.items())
    return any(found and not can_meet([*found, (">=", least)]) for found, least in pins)


def asked_by_siblings(
    siblings: Sequence[tuple[str, str]], library: str, shown: Sequence[Shown] = ()
) -> Iterator[Asked]:
    """What the other notebooks of a project have run on (`notebooks_beside`), where they agree; by the nearest's name.

    It counts last.
    """
    told = [(name, _exact_in(raw, library, shown)) for name, raw in siblings]
    releases = [(name, release) for name, release in told if release]
    if releases and len({release for _, release in releases}) == 1:
        name, release = releases[0]
        yield Asked(f"what {name} ran on", [("==", release)], shown=True, left=True, sibling=True)


def _exact_in(notebook: str, library: str, shown: Sequence[Shown]) -> str | None:
    """The release that a notebook's outputs name."""
    printed = printed_by(notebook, library) or installed_by(notebook, library)
    return printed or next((release for _, release in shown_by(notebook, library, shown)), None)


def spelled(library: str, pins: Sequence[Pin]) -> str:
    """What is asked for as pip has it: `trl>=0.8,<0.9`."""
    return f"{library}{','.join(f'{sign}{version}' for sign, version in pins)}"


def _in_outputs(notebook: str, library: str, shown: Sequence[Shown]) -> Iterator[Asked]:
    """What a notebook has run on, as the outputs show that it was saved with."""
    if printed := printed_by(notebook, library):
        yield Asked(PRINTED, [("==", printed)], shown=True)
    if installed := installed_by(notebook, library):
        yield Asked(INSTALLED, [("==", installed)], shown=True)
    for where, release in shown_by(notebook, library, shown):
        yield Asked(where, [("==", release)], shown=True)
    if told := told_by(notebook, library, shown):
        yield Asked(*told, shown=True)


def installed_by(raw: str, library: str) -> str | None:
    """The release that pip named in the outputs that a notebook was saved with; the last, where it named several."""
    name = rf"(?<![\w-]){re.escape(library)}-{VERSION}"  # sentence-transformers is another one
    said = re.findall(rf"(?:Downloading|Using cached) {name}(?:-py|\.tar)|Successfully installed [^\"]*?{name}\b", raw)
    line = r'(?:(?!\\n)[^"\n])*'  # of a JSON text
    told = re.findall(rf"Requirement already satisfied: {re.escape(library)}\b{line}\({VERSION}\)", raw)
    versions = [next(filter(None, groups)) for groups in said] or told
    return versions[-1] if versions else None


def _in_script(text: str, library: str) -> list[tuple[str, str]]:
    """`pip install trl==0.8.6` anywhere, a PEP 723 block, a git tag, `assert trl.__version__ == "0.8.6"`."""
    if library not in text:
        return []
    name = re.escape(library)
    named = rf"(?<![\w./-]){name}(?![\w./-])|github\.com/[\w-]+/{name}\b"
    installs = [words for words in PIP_INSTALL.findall(text) if re.search(named, words)]
    pins = requirement(text, library, start=r"(?<![\w./-])")
    if installs and pins:  # of several commands the last counts, also where it takes the newest
        last = requirement(installs[-1], library, start=r"(?<![\w./-])")
        pins = last or ([] if UPGRADES.search(f"{installs[-1]} ") else pins)
    for line in re.findall(rf"(?m)^\s*assert\b[^\n]*\b{name}\.__version__[^\n]*$", text):
        found = re.search(rf"__version__\s*(==|<=|<|>=|>)\s*[\"']{VERSION}", line) or re.search(
            rf"__version__\)?\s*(==|<=|<|>=|>)\s*(?:\w+\.)*parse\(\s*[\"']{VERSION}", line
        )
        begins = re.search(rf"__version__\.startswith\(\s*[\"']{VERSION}", line)
        pins += [(found[1], found[2])] if found else [("==", begins[1])] if begins else []
    return [*pins, *dict.fromkeys(pin for revision in revisions_in(text, library) for pin in revision)]


def _upgrades(text: str, library: str) -> bool:
    """Whether the last command of the script that installs a library takes the newest, whatever is there."""
    named = rf"(?<![\w./=-]){re.escape(library)}(?![\w./-])|github\.com/[\w-]+/{re.escape(library)}\b"
    text = without_messages(text) if library in text else ""
    installs = [words for words in PIP_INSTALL.findall(text) if re.search(named, words)]
    if not installs or requirement(installs[-1], library, start=r"(?<![\w./-])"):
        return False
    if re.search(rf"/{re.escape(library)}(?:\.git)?@", installs[-1]):  # a commit or a tag
        return False
    return UPGRADES.search(f"{installs[-1]} ") is not None
