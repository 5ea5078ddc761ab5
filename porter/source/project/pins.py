"""Releases of libraries that a script or its project asks for: in its text, in what a notebook installed, beside it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ...errors import InputError
from ...files import is_file, plain_text
from ...releases.versions import Pin, can_meet
from ...tables import libraries_read, said_by_built_in
from .copies import copy_of, held_by_git
from .folders import documents_below, files_in, project_folders
from .launchers import containers_of, images_of, launchers_of
from .printed import Shown, left_by, printed_by, shown_by, told_by
from .requirements import (
    INSTALLS,
    NEGATED,
    VERSION,
    all_in_file,
    in_command,
    in_commands,
    in_file,
    lists_in,
    requirement,
    revisions_in,
    without_messages,
)

FILES = (
    "requirement*.txt",
    "requirements/*.txt",
    "*requirement*.txt",
    "req*.txt",
    "requirement*.lock",
    "dependenc*.txt",
    "constraint*.txt",
    "*freeze*.txt",
    "pip*.txt",
    "*env*.txt",
    "pyproject.toml",
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pixi.lock",
    "Pipfile",
    "environment*.yml",
    "environment*.yaml",
    "setup.py",
    "setup.cfg",
    "env*.yml",
    "env*.yaml",
    "conda*.yml",
    "conda*.yaml",
    "*env*.yml",
    "*env*.yaml",
    "*.sh",
    "scripts/*.sh",
    "Dockerfile*",
    "*.Dockerfile",
    "Makefile",
    "README*",
    "INSTALL*",
    "docker/*requirement*.txt",
    "docker/Dockerfile*",
    "docker/*.Dockerfile",
    ".devcontainer/Dockerfile*",
    "*requirement*.in",
    "*compose*.yml",
    "*compose*.yaml",
    "docker/*compose*.y*ml",
    "cog.yaml",
    "justfile",
    "*.def",
)
# Of these, what stands in a command that installs.
COMMANDS = re.compile(
    r"(\.sh|\.md|\.rst|\.def|Dockerfile|Makefile|justfile|README|INSTALL|compose[\w.-]*\.ya?ml)(\.|$)"
)
OF_REQUIREMENTS = re.compile(r"\bpip3?[ \t][^\n]*?\s(?:-r|--requirements?)[\s=]")
NAMED = re.compile(r"\s(?:-r|--requirements?)[\s=]+[\"']?([\w./-]+\.txt)\b")
PIP_OPTIONS = r"(?:-[\w-]+(?:=\S+)?[ \t]+)*"  # of pip itself, in front of its command: `pip -q install`
INSTALL = re.compile(rf"\bpip3?[ \t]+{PIP_OPTIONS}install[ \t]+((?:[^\r\n\\;&|#]|\\\r?\n|\\.)*)")
UPGRADES = re.compile(r"(?:^|\s)(?:-\w*U\w*|--upgrade)\s|\bgit\+")
SCRIPT = "the script"
INSTALLED = "what the notebook installed"
PRINTED = "what the notebook printed"
MAX_BYTES = 2_000_000  # of a file that is looked into
# What runs a script on what a lock file names, not on the requirements beside it.
LOCKS = {
    "uv.lock": re.compile(r"\buv (?:run|sync)\b(?! --(?:no-project|with))"),
    "poetry.lock": re.compile(r"\bpoetry (?:run|install|shell)\b"),
    "pdm.lock": re.compile(r"\bpdm (?:run|install|sync)\b"),
    "pixi.lock": re.compile(r"\bpixi (?:run|install)\b"),
    "Pipfile.lock": re.compile(r"\bpipenv (?:run|install|sync)\b"),
}


@dataclass(frozen=True)
class Asked:
    """Where a release is asked for and how; `against` says what speaks against it ("" where it counts), or against
    what stands `beside` it.

    `shown`: not asked for, but what the script has run on, as its outputs show; `left`: as files of its runs do;
    `sibling`: as those of another notebook of its project, all that name a release of the library.
    """

    where: str
    pins: list[Pin]
    against: str = ""
    shown: bool = False
    left: bool = False
    beside: str = ""
    sibling: bool = False


@dataclass(frozen=True)
class Around:
    """What lies around a script that may ask for releases: its project's folders, the names and texts of its files
    that declare or install, of those that launch it, and of those that make the image which it runs in.
    """

    folders: list[Path]
    files: list[tuple[str, str]]
    launchers: list[tuple[str, str]]
    images: list[tuple[str, str]]


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
    newest = f"the script's own command, which installs the newest {library}" if upgrades else ""
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
    declared = [(name, held) for name, held in declared if not _is_too_old(held, floors)] if commands else []
    for where, text in sorted(commands, key=lambda file: script.name not in file[1]):
        for command, found in in_commands(text, library):
            for other in {library: "", **floors}:
                if other not in bounds:
                    ranges = [(name, in_file(held, other)) for name, held in declared]
                    least = [("what the script uses", [(">=", floors[other])])] if other in floors else []
                    bounds[other] = [*least, *((name, pins) for name, pins in ranges if pins)]
            against = (
                f"{name} ({spelled(other, bound)})"
                for other in {library: "", **floors}
                for name, bound in bounds[other]
                if not can_meet([*in_command(command, other), *bound]) and can_meet(bound)
            )
            yield Asked(where, found, newest or next(against, ""))


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


def around_script(
    script: Path, text: str, libraries: Collection[str] | None = None, clouds: Collection[str] | None = None
) -> Around:
    """The files around a script with this text, read once for all libraries; one that can't be read is left out.

    `libraries` are those that packs read, `clouds` packages that run functions in images, whose imports are looked
    into (`gpu_keyword` of packs); where None those of the built-in packs.
    """
    libraries = libraries_read() if libraries is None else libraries
    clouds = said_by_built_in("gpu_keyword") if clouds is None else clouds
    files = []
    for file in _files(script, text, libraries):
        with contextlib.suppress(OSError, InputError):
            files.append((file.name, _text(file)))
    folders = project_folders(script.resolve())
    files += _documents(folders, {name for name, _ in files}, libraries)
    launchers = [*launchers_of(script)]
    commands = [held for name, held in (*files, *launchers) if COMMANDS.search(name)]
    first = _lock_of([text]) or ("" if any(OF_REQUIREMENTS.search(held) for held in commands) else _lock_of(commands))
    images = images_of(script, text if any(package in text for package in clouds) else "", launchers)
    files.sort(key=lambda file: file[0] != first)
    held = held_by_git(folders, [text, *(held for _, held in files)])
    return Around(folders, [held, *files] if held else files, launchers, [*images])


def _documents(
    folders: Sequence[Path], known: Collection[str], libraries: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Documents in the project's folders that list releases of several libraries, as what they list would be installed
    (`pip install trl==0.24.0 peft==0.17.1`), and shell scripts that install."""
    for file in documents_below(folders):
        with contextlib.suppress(OSError, InputError):
            if file.name in known:
                continue
            if file.suffix == ".sh":
                yield file.name, _text(file)
                continue
            listed = [words for words in lists_in(_text(file)) if sum(f" {name}=" in words for name in libraries) > 1]
            if listed:
                yield file.name, "\n".join(listed)


def _lock_of(commands: Sequence[str]) -> str:
    """The lock file that commands run on, `uv run train.py`; an empty string where they name none."""
    return next((name for name, runs in LOCKS.items() if any(runs.search(command) for command in commands)), "")


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


def packages_of_project(script: Path) -> dict[str, str]:
    """Packages that requirements beside `script` and above list, by what an import of that name would be."""
    found: dict[str, str] = {}
    for file in _files(script):
        if "lock" in file.name or COMMANDS.search(file.name):
            continue
        try:
            text = _text(file)
        except (OSError, InputError):
            continue
        item = "" if file.suffix == ".txt" else "(?:- |[\"'])"  # of a list, in what isn't one itself
        for name in re.findall(rf"(?m)^[ \t]*{item}([A-Za-z][\w.-]*\w)(?=[\[<>=~!;,\"'\s]|$)", text):
            found.setdefault(name.lower().replace("-", "_"), name)
    return found


def packages_installed(text: str) -> dict[str, str]:
    """Packages that a script's own `pip install` lines name, by what an import of that name would be."""
    found: dict[str, str] = {}
    for words in INSTALL.findall(text):
        takes_value = False
        for word in re.findall(r"[^\s\"'`,()]+", words):
            name = re.match(r"[A-Za-z][\w.-]*\w(?=$|[\[<>=~!;@])", word)
            if name is not None and not takes_value:
                found.setdefault(name[0].lower().replace("-", "_").replace(".", "_"), name[0])
            takes_value = word in ("-r", "-c", "-e", "-f", "-i", "--index-url", "--extra-index-url", "--find-links")
    return found


def _text(file: Path) -> str:
    return plain_text(file, MAX_BYTES)


def installed_by(raw: str, library: str) -> str | None:
    """The release that pip named in the outputs that a notebook was saved with; the last, where it named several."""
    name = rf"(?<![\w-]){re.escape(library)}-{VERSION}"  # sentence-transformers is another one
    said = re.findall(rf"(?:Downloading|Using cached) {name}(?:-py|\.tar)|Successfully installed [^\"]*?{name}\b", raw)
    line = r'(?:(?!\\n)[^"\n])*'  # of a JSON text
    told = re.findall(rf"Requirement already satisfied: {re.escape(library)}\b{line}\({VERSION}\)", raw)
    versions = [next(filter(None, groups)) for groups in said] or told
    return versions[-1] if versions else None


def _files(script: Path, text: str = "", libraries: Collection[str] = ()) -> Iterator[Path]:
    """Beside the script, then above it up to the root of its repository; without one in the next folder only.

    Of several of a kind the one first that speaks of the script: `requirements-train.txt` for `e2/train/sft.py`, or
    the one that lists most of the `libraries` that `text` names. Last those that the commands of these files install
    from, wherever they lie in the project (`pip install -r setup/requirements.txt`).
    """
    seen: set[Path] = set()
    script = script.resolve()
    named = [each for each in sorted(libraries) if re.search(rf"(?m)^\s*(?:from|import)\s+{each}\b", text)]
    for folder in project_folders(script):
        below = script.relative_to(folder).parts if script.is_relative_to(folder) else (script.name,)
        words = set(re.split(r"[^a-z0-9]+", "/".join(below).lower().removesuffix(script.suffix)))
        for files in files_in(folder, FILES):
            found = [path for path in files if path not in seen]
            yield from found if len(found) < 2 else sorted(found, key=lambda path: _foreign(path, words, named))
            seen.update(found)
    yield from _installed_from([path for path in seen if COMMANDS.search(path.name)], project_folders(script), seen)


def _installed_from(commands: Iterable[Path], folders: Sequence[Path], seen: set[Path]) -> Iterator[Path]:
    """The files of requirements that commands name, from their own folder or the project's; outside of it none."""
    for file in sorted(commands, key=lambda path: (-len(path.parts), path)):
        try:
            installs = INSTALLS.findall(re.sub(r"\\\r?\n", " ", _text(file)))
        except (OSError, InputError):
            continue
        for name in (name for command in installs if not NEGATED.search(command) for name in NAMED.findall(command)):
            places = (Path(os.path.realpath(folder / name)) for folder in (file.parent, *folders))
            found = next((path for path in places if path.is_relative_to(folders[-1]) and is_file(path)), None)
            if found is not None and found not in seen:
                seen.add(found)
                yield found


def _foreign(file: Path, words: set[str], named: list[str]) -> tuple[int, int, int]:
    """Less for a file of requirements that is more likely the script's: words of its name, libraries that it lists, no
    further words: `requirements-eval.txt` is for another use."""
    names = set(re.split(r"[^a-z0-9]+", file.name.lower()))
    own = {name for name in names if any(name == word or word.startswith(f"{name}ing") for word in words)}
    try:
        held = _text(file) if named and not COMMANDS.search(file.name) else ""
    except (OSError, InputError):
        held = ""
    listed = sum(bool(re.search(rf"(?m)^[ \t\-\"']*{library}\b", held)) for library in named)
    return -len(own), -listed, len(names - own)


def _in_script(text: str, library: str) -> list[tuple[str, str]]:
    """`pip install trl==0.8.6` anywhere, a PEP 723 block, a git tag, `assert trl.__version__ == "0.8.6"`."""
    if library not in text:
        return []
    name = re.escape(library)
    named = rf"(?<![\w./-]){name}(?![\w./-])|github\.com/[\w-]+/{name}\b"
    installs = [words for words in INSTALL.findall(text) if re.search(named, words)]
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
    installs = [words for words in INSTALL.findall(text) if re.search(named, words)]
    if not installs or requirement(installs[-1], library, start=r"(?<![\w./-])"):
        return False
    if re.search(rf"/{re.escape(library)}(?:\.git)?@", installs[-1]):  # a commit or a tag
        return False
    return UPGRADES.search(f"{installs[-1]} ") is not None
