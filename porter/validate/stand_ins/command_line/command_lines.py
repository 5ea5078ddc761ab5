"""The command lines and configuration files that a script's own project shows for it: better than made-up words."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKS = (".git", "pyproject.toml", "setup.py", "requirements.txt", "environment.yml", "README.md")
UPWARDS = 3
SHOWING = (
    *("*.sh", "README*", "*.md", "scripts/**/*.sh", "scripts/**/*.md", "*.slurm", "*.sbatch", "Makefile"),
    *(f"{folders}*.{ending}" for folders in ("*/", "*/*/", "*/*/*/") for ending in ("sh", "slurm", "sbatch")),
)
CONFIGS = ("*.y*ml", "*.json", "*conf*/**/*.y*ml", "*conf*/**/*.json", "recipes/**/*.y*ml", "examples/**/*.y*ml")
MOST, LONGEST = 200, 300_000
OF_RUNS = {"wandb", "mlruns"}  # folders in which trackers keep what they were told
TO_FILL_IN = re.compile(r"<[A-Za-z][^<>|]*>")  # what a reader is to write: `--epochs <number of epochs>`
ENDS = {"|", "||", ">", ">>", "<", "&", "&&", ";", "2>&1", "\\"}
# Of the machine that a command was written for, or of what a validation never does.
LEFT_OUT = re.compile(
    r"--?(deepspeed|fsdp\w*|local[_-]rank|report_to|push_to_hub|hub_\w+|resume\w*|wandb\w*|accelerator_config|"
    r"torch_compile\w*|ddp_\w+|log_with)(=|$)"
)


@dataclass(frozen=True)
class Shown:
    """`words` that `where` (a file's name) gives the script on its command line."""

    where: str
    words: tuple[str, ...]


def project_of(script: Path) -> Path:
    """The folder of the project that `script` belongs to: the nearest of a few above it that looks like one, or one
    above that where a module lies which the script imports and which isn't nearer. A script that puts folders on
    `sys.path` itself needs no mark there."""
    here = Path(script).absolute().parent
    above = [folder for folder in [here, *here.parents][: UPWARDS + 1] if folder not in (Path.home(), Path("/"))] or [
        here
    ]
    for folder in above:
        if (folder / ".git").exists():
            return folder
    found = next((folder for folder in above if any((folder / mark).exists() for mark in MARKS[1:])), here)
    text = _text(script)
    marks = ("",) if "sys.path" in text else MARKS
    wider = [folder for folder in above if folder in found.parents and any((folder / mark).exists() for mark in marks)]
    asked = _imported(text) if wider else set()
    missing = [name for name in asked if not any(_has_module(one, name) for one in (here, found, found / "src"))]
    return next((one for one in wider if any(_has_module(one, name) for name in missing)), found)


def packages_in(project: Path) -> list[Path]:
    """Folders below a project that `pip install` would put on the path: those with a setup.py or pyproject.toml."""
    marked = {
        file.parent for mark in ("setup.py", "pyproject.toml") for file in _files(project, (f"*/{mark}", f"*/*/{mark}"))
    }
    return [folder for package in sorted(marked) for folder in (package / "src", package) if folder.is_dir()]


def _imported(text: str) -> set[str]:
    """First names of what a script imports."""
    return set(re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE)) - sys.stdlib_module_names


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or any((folder / name).glob("*.py"))


def commands_for(script: Path, project: Path) -> list[Shown]:
    """Command lines of `script` in the project's shell scripts, READMEs and its own text, in this order."""
    here = script.absolute().parent
    folders = dict.fromkeys([here, project])
    found: list[Shown] = []
    for path in (path for folder in folders for path in _files(folder, SHOWING)):
        places = (path.parent, project, here)  # a command may have been given in the script's folder, too
        found += [Shown(path.name, _existing(words, places)) for words in _commands(_text(path), script)]
    found += [Shown(script.name, _existing(words, (here, project))) for words in _commands(_text(script), script)]
    return list(dict.fromkeys(found))


def configs_of(script: Path, project: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Configuration files of the project (YAML, JSON) with what they set, those that the script fits best first."""
    text = _text(script)
    found = []
    for path in dict.fromkeys(
        path for folder in (script.absolute().parent, project) for path in _files(folder, CONFIGS)
    ):
        content = _content(path)
        if content:
            known = [key for key in content if re.search(rf"\b{re.escape(key)}\b", text)]
            named = script.stem.lower() in path.stem.lower() or path.stem.lower() in script.stem.lower()
            found.append(((named, len(known) / len(content)), path, content))
    found.sort(key=lambda entry: entry[0], reverse=True)
    return [(path, content) for _, path, content in found]


def _files(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    seen = 0
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            seen += 1
            if seen > MOST:
                return
            if path.is_file() and path.stat().st_size <= LONGEST and not OF_RUNS & {*path.parts}:
                yield path


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".json":
            content = json.loads(_text(path))
        else:
            import yaml

            content = yaml.safe_load(_text(path))
    except Exception:  # somebody's file, of any form: it is no configuration then
        return {}
    return content if isinstance(content, dict) and all(isinstance(key, str) for key in content) else {}


def _commands(text: str, script: Path) -> Iterator[tuple[str, ...]]:
    variables: dict[str, str] = {}
    for line in re.sub(r"\\[ \t]*\r?\n", " ", text).splitlines():
        line = line.strip().strip("`").removeprefix("$ ").removeprefix("!").strip()
        if setting := re.fullmatch(r"(?:export\s+)?(\w+)=(\"[^\"]*\"|'[^']*'|[^\s;]*)\s*(?:#.*)?;?", line):
            variables[setting[1]] = _filled(setting[2].strip("\"'"), variables)
            continue
        if script.stem not in line or line.startswith("#"):
            continue
        try:
            words = shlex.split(TO_FILL_IN.sub("<...>", _filled(line, variables)), comments=True)
        except ValueError:
            continue
        at = next((index for index, word in enumerate(words) if _is(word, script, words[:index])), None)
        if at is None:
            continue
        rest = _without_blanks(words[at + 1 :])
        stop = next(
            (index for index, word in enumerate(rest) if word in ENDS or re.match(r"(?:\d|&)?[<>]", word)), len(rest)
        )
        if rest[:stop]:
            yield tuple(rest[:stop])


def _without_blanks(words: list[str]) -> list[str]:
    """Words without those that a reader is to fill in, and the flags that they would be of."""
    kept: list[str] = []
    for word in words:
        if word == "<...>":
            del kept[-1 if kept and kept[-1].startswith("-") else len(kept) :]
        elif "<...>" not in word:
            kept.append(word)
    return kept


def _is(word: str, script: Path, before: list[str]) -> bool:
    """Whether `word` runs the script: its path after an interpreter or launcher, or its module after -m."""
    launched = any(re.search(r"python|torchrun|accelerate|deepspeed|\buv\b|launch|srun", part) for part in before)
    if word.endswith(".py"):
        return launched and Path(word).name == script.name
    return bool(before) and before[-1] == "-m" and word.split(".")[-1] == script.stem


def _filled(text: str, variables: dict[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        return variables.get(name, default[2:] if default else found[0])

    return re.sub(r"\$\{(\w+)(:-[^}]*)?\}|\$(\w+)", value, text)


def _existing(words: tuple[str, ...], places: Sequence[Path]) -> tuple[str, ...]:
    """`words` with the configuration files that they name where those are, seen from here."""

    def placed(word: str) -> str:
        flag, equals, value = word.rpartition("=")
        if not value.endswith((".yaml", ".yml", ".json")) or Path(value).exists():
            return word
        there = next((base / value for base in places if (base / value).is_file()), None)
        return f"{flag}{equals}{there}" if there else word

    return tuple(placed(word) for word in words)
