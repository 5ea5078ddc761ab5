"""What the shell scripts and READMEs of a project give a script: flags, files of settings with their keys, settings by
their path, and variables of its environment.

`--evaluation_strategy epoch` in run.sh is a keyword of TrainingArguments as much as one that stands in the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ...files import is_folder
from ..project.folders import file_in, files_in, project_folders
from ..project.usual.held_settings import Launched
from ..project.usual.settings_files import ENDINGS as OF_SETTINGS
from ..project.usual.settings_files import settings_of
from .shell import ASSIGNMENT, ENVIRONMENT, commands_of, filled, names_script, words_of

ENDINGS = (".sh", ".slurm", ".sbatch", ".job")  # of shell scripts: a cluster's scheduler is handed some
FOLDERS = ("", "*scripts/**/", "script/", "shell/", "examples/**/", "jobs/**/", "slurm/**/")
PATTERNS = tuple(f"{folder}{name}" for folder in FOLDERS for name in ("*.s[hbl]*", "*.job"))
MODULE = ("-m", "--module")  # before a dotted name
EXPORTED = re.compile(r"\s*(?:export|declare\s+-\w*x\w*)\s")
PATH = re.compile(r"\+{0,2}([A-Za-z]\w*(?:\.\w+)*)=(.+)", re.S)  # of a setting, as Hydra and OmegaConf take them
KEYED = (".yaml", ".yml", ".json")
MOST_FILES, LARGEST = 60, 100_000
FLAG = re.compile(r"--([A-Za-z]\w*)(?:=.*)?")
KEY = re.compile(r"(?m)^([A-Za-z]\w*):")


def words_of_launches(script: Path, named: Iterable[str] = ()) -> dict[str, str]:
    """The names of flags and of keys of settings, each with the file that has it (`run.sh`); `named`: files of settings
    that the script itself gives its parser."""
    found: dict[str, str] = {}
    folders = project_folders(script.resolve())
    settings = [*named]
    for file, folder in _shell_files(folders).items():
        text = _read(file)
        if script.name not in text and script.stem not in text:
            continue
        for given in _launches(text, script, folder, folders):
            for word in given.words:
                if flag := FLAG.fullmatch(word):
                    found.setdefault(flag[1], file.name)
                settings += [word.rpartition("=")[2]] if word.endswith(KEYED) else []
    for written in dict.fromkeys(settings):
        place = file_in(folders, written)
        for key in _keys(place) if place is not None else ():
            found.setdefault(key, place.name if place is not None else "")
    return found


def _keys(file: Path) -> Iterable[str]:
    """The keys at the top of a file of YAML or JSON."""
    text = _read(file)
    if file.suffix != ".json":
        return KEY.findall(text)
    held = settings_of(text)
    return [key for key in held if isinstance(key, str)] if isinstance(held, dict) else ()


@dataclass(frozen=True)
class _Given:
    """The words behind the script's name in a command, and the variables of its environment that are set there."""

    words: list[str]
    variables: Mapping[str, str]


def given_by_launches(script: Path) -> Launched:
    """The files of settings that shell scripts and READMEs of the project give a script; and its flags, the variables
    of its environment and the settings that are named by their path, where all of them give one value."""
    folders = project_folders(script.resolve())
    texts = [(file.name, _read(file), folder) for file, folder in _shell_files(folders).items()]
    named = re.compile(rf"{re.escape(script.name)}|-m +[\w.]*\b{re.escape(script.stem)}\b|^\s*export\s")
    for folder in folders:
        for file in next(files_in(folder, ("README*",))):
            lines = _read(file).replace("\\\n", " ").splitlines()
            texts.append((file.name, "\n".join(line for line in lines if named.search(line)), folder))
    files: dict[str, None] = {}
    flags, variables, paths = (dict[str, set[tuple[str, str]]]() for _ in range(3))
    always: set[str] | None = None
    for where, text, folder in texts:
        if script.name not in text and script.stem not in text:
            continue
        for given in _launches(text, script, folder, folders):
            words = given.words
            files.update(dict.fromkeys(word.rpartition("=")[2] for word in words if word.endswith(OF_SETTINGS)))
            always = {*given.variables} if always is None else always & {*given.variables}
            for name, value in given.variables.items():
                variables.setdefault(name, set()).add((value, where))
            for word, behind in zip(words, [*words, "-"][1:], strict=True):
                flag, equal, value = word.partition("=")
                value = value if equal else behind
                if flag.startswith("--") and value and not value.startswith(("-", "$")):
                    flags.setdefault(flag, set()).add((value, where))
                elif (path := PATH.fullmatch(word)) is not None and not path[2].startswith("$"):
                    paths.setdefault(path[1], set()).add((path[2], where))
    return Launched(tuple(files), _sure(flags), _sure(variables), frozenset(always or ()), _sure(paths))


def _sure(found: Mapping[str, set[tuple[str, str]]]) -> dict[str, tuple[str, str]]:
    """What has one value in all launches, with one of the places where it stands."""
    return {name: min(held) for name, held in found.items() if len({value for value, _ in held}) == 1}


def _launches(text: str, script: Path, folder: Path, folders: list[Path]) -> Iterator[_Given]:
    """What each command that has the script's name gives it; `folder` is the one that the commands are of."""
    variables: dict[str, str] = {}
    exported: dict[str, str] = {}
    inside = ""
    for _, command in commands_of(text):
        assigned = ASSIGNMENT.match(command)
        if assigned is not None and len(words_of(assigned["value"])) <= 1:
            variables[assigned["name"]] = "".join(words_of(filled(assigned["value"], variables)))
            if EXPORTED.match(command) and "$" not in variables[assigned["name"]]:
                exported[assigned["name"]] = variables[assigned["name"]]
            continue
        command = filled(command, variables)
        words = [part for word in words_of(command) for part in (word.split() if "\n" in word else [word])]
        if words and words[0].lstrip("(") in ("cd", "pushd", "popd"):
            inside = _entered(inside, words[1], folders) if len(words) == 2 else ""
            continue
        for place, word in enumerate(words):
            if place and words[place - 1] in MODULE:
                word = f"{word.replace('.', '/')}.py"
            if names_script(word if word.startswith(("/", "~", "$")) else f"{inside}{word}", script, folder):
                before = [each.partition("=") for each in words[:place] if ENVIRONMENT.match(each) and "$" not in each]
                yield _Given(words[place + 1 :], exported | {name: value for name, _, value in before})
                break
        inside = "" if command.endswith(")") else inside


def _entered(inside: str, to: str, folders: list[Path]) -> str:
    """The folder of the project in which a shell is after `cd to`, as a path begins in it; "" where that isn't told."""
    if to.startswith(("/", "~", "$", "-", "..")):
        return ""
    found = f"{inside}{to.rstrip('/')}/".removeprefix("./")
    return found if any(is_folder(folder / found) for folder in folders) else ""


def _shell_files(folders: list[Path]) -> dict[Path, Path]:
    """Each shell script with the folder of `folders` that it is of."""
    found: dict[Path, Path] = {}
    for folder in folders:
        for path in chain.from_iterable(files_in(folder, PATTERNS)):
            if len(found) < MOST_FILES and path.suffix in ENDINGS:
                found.setdefault(path, folder)
    return found


def read_shell_files(script: Path) -> Iterator[tuple[Path, str]]:
    """The shell scripts of a script's project, with what they hold."""
    for file in _shell_files(project_folders(script.resolve())):
        yield file, _read(file)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", errors="replace") if file.stat().st_size <= LARGEST else ""
    except OSError:
        return ""
