"""How many processes a script's own words, its project's README, shell scripts or jobs start it with.

    '''accelerate launch --config_file configs/two_gpus.yaml train.py'''

Nobody says that a run was started so; but where every command has several, one process is a guess that is worth a
warning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from ...files import is_file, read_text
from ..project.folders import files_in, project_folders
from ..project.launchers import launchers_of
from .cloud_jobs import processes_of_jobs
from .launch_config import read_launch_config
from .launched_with import read_shell_files
from .shell import Launch, names_script, read_launches

COMMAND = re.compile(r"\b(?:accelerate[ \t]+launch|torchrun|deepspeed|python3?)[ \t][^`\n]{0,1000}?\.py\b")
CONFIG = "config_file"
# READMEs, and what describes a container's command, or a cluster's job.
DOCUMENTS = (
    "README*",
    "Dockerfile*",
    "Makefile",
    "*.y*ml",
    *(f"{folder}/*.y*ml" for folder in ("k8s", "kubernetes", "deploy", "deployment", "docker", "jobs", "sky")),
)
LISTING = (".yaml", ".yml")
LISTED = re.compile(  # `["torchrun", "train.py"]`, and an item a line
    r"[\"']\s*,\s*[\"']|[\"']?\n[ \t]*- [\"']?(?=[^\s\"':]+[\"']?[ \t]*(?:\n|$))"
)
LARGEST = 1_000_000  # characters of a README
ABOVE = 2  # folders above the script's, where there is no repository


@dataclass(frozen=True)
class UsualLaunch:
    """`where` a command stands, the `processes` that it starts, and what `--launch-config` may be given for it."""

    where: str
    processes: int
    file: str = ""


def usual_launch(script: Path, text: str) -> UsualLaunch | None:
    """The launch with the fewest processes of all that name the script; None where none of them counts its own."""
    found = [*_in_words(script, text), *_in_documents(script), *_in_shell_files(script)]
    found += [UsualLaunch(*job) for job in processes_of_jobs(script.name, launchers_of(script.absolute()))]
    return min(found, key=lambda launch: launch.processes, default=None)


def _in_words(script: Path, text: str) -> Iterator[UsualLaunch]:
    for where, said in _words(text):
        for command in COMMAND.findall(said.replace("\\\n", " ")):
            yield from _counted(script, command, script, where)


def _in_documents(script: Path) -> Iterator[UsualLaunch]:
    for folder in project_folders(script.absolute(), above=ABOVE):
        for file in (each for found in files_in(folder, DOCUMENTS) for each in found):
            text = _text(file).replace("\\\n", " ")
            text = LISTED.sub(" ", text) if file.suffix in LISTING or file.name.startswith("Dockerfile") else text
            for command in COMMAND.findall(text) if script.name in text else ():
                named = command.split()[-1]
                if folder == script.absolute().parent or (folder / named).resolve() == script.resolve():
                    yield from _counted(script, command, file, file.name)


def _text(file: Path) -> str:
    try:
        return read_text(file, LARGEST)
    except (OSError, ValueError, InputError):
        return ""


def _in_shell_files(script: Path) -> Iterator[UsualLaunch]:
    for file, text in read_shell_files(script):
        if script.name in text:
            yield from _counted(script, text, file, file.name)


def _counted(script: Path, text: str, file: Path, where: str) -> Iterator[UsualLaunch]:
    folders = project_folders(script.absolute(), above=ABOVE)
    try:
        launches = read_launches(text, file)
    except InputError:
        return
    for launch in launches:
        own = where.startswith("the script") and Path(launch.script).name == script.name
        moved = own and not any(is_file(folder / launch.script) for folder in folders)  # it lay elsewhere once
        if not moved and not any(names_script(launch.script, script, folder) for folder in folders):
            continue
        held = next((each.value for each in launch.settings if each.name == "num_processes"), None)
        named = file.name if file.suffix == ".sh" else ""
        if held is None and (config := _config_of(launch, folders)) is not None:
            held, named = _processes_of(config[1]), config[0]
        if isinstance(held, int):
            yield UsualLaunch(f"{where} ({named})" if named and named != where else where, held, named)


def _config_of(launch: Launch, folders: list[Path]) -> tuple[str, Path] | None:
    """The accelerate YAML that a launch names, as it is written and where it lies."""
    written = next((str(each.value) for each in launch.settings if each.name == CONFIG), None)
    if written is None:
        return None
    return next(((written, folder / written) for folder in folders if is_file(folder / written)), None)


def _processes_of(config: Path) -> int | None:
    try:
        settings = read_launch_config(config)
    except InputError:
        return None
    value = next((each.value for each in settings if each.name == "num_processes"), 1)
    return value if isinstance(value, int) else None


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The docstring of a script and its comments."""
    try:
        docstring = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        docstring = ""
    yield "the script's docstring", docstring
    comments = re.findall(r"(?m)^[ \t]*#[ \t]?(.*)$", text)
    yield "the script's comments", "\n".join(comments)
