"""What the shell scripts of a project give a script on its command line: which flags, and which keys of its YAML.

`--evaluation_strategy epoch` in run.sh is a keyword of TrainingArguments as much as one that stands in the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..project.folders import project_folders
from .shell import commands_of, filled, words_of

PATTERNS = ("*.sh", "scripts/**/*.sh", "script/*.sh", "shell/*.sh", "examples/**/*.sh")
MOST_FILES, LARGEST = 60, 100_000
FLAG = re.compile(r"--([A-Za-z]\w*)(?:=.*)?")
KEY = re.compile(r"(?m)^([A-Za-z]\w*):")


def words_of_launches(script: Path) -> dict[str, str]:
    """The names of flags and of YAML keys, each with the file that has it (`run.sh`)."""
    found: dict[str, str] = {}
    folders = project_folders(script.resolve())
    for file in _shell_files(folders):
        text = _read(file)
        if script.name not in text and script.stem not in text:
            continue
        for given in _launches(text, script):
            for word in given:
                if flag := FLAG.fullmatch(word):
                    found.setdefault(flag[1], file.name)
                for yaml in (word.rpartition("=")[2],) if word.endswith((".yaml", ".yml")) else ():
                    place = next((folder / yaml for folder in folders if (folder / yaml).is_file()), None)
                    for key in KEY.findall(_read(place)) if place is not None else ():
                        found.setdefault(key, place.name if place is not None else "")
    return found


def _launches(text: str, script: Path) -> Iterator[list[str]]:
    """The words behind the script's name in each command that has it."""
    for _, command in commands_of(text):
        words = [part for word in words_of(filled(command, {})) for part in (word.split() if "\n" in word else [word])]
        for place, word in enumerate(words):
            if Path(word).name == script.name or word.rpartition(".")[2] == script.stem != word:
                yield words[place + 1 :]
                break


def _shell_files(folders: list[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for folder in folders:
        for pattern in PATTERNS:
            found |= dict.fromkeys(path for path in sorted(folder.glob(pattern)) if path.is_file())
            if len(found) > MOST_FILES:
                return list(found)[:MOST_FILES]
    return list(found)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", errors="replace") if file.stat().st_size <= LARGEST else ""
    except OSError:
        return ""
