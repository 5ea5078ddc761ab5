"""What a notebook's shell lines mean for the rest of it: folders and short files are made, no program is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from getopt import GetoptError, gnu_getopt

from .shell_words import Command, commands_of

INSTALLED = "what the notebook installs (pip, apt, conda) was not installed: the environment has its libraries"
SHOWN = "programs that only show something (nvidia-smi, ls, ...) were not run"
INSTALLERS = frozenset("pip pip3 pipenv poetry uv conda mamba micromamba apt apt-get add-apt-repository".split())
SHOWING = frozenset(
    """
    nvidia-smi nvcc ls cat head tail pwd df du free wc lscpu lsb_release uname which echo date whoami top ps clear tree
    file stat nproc lspci hostname printenv true test
    """.split()
)
OF_THE_SHELL = frozenset("cd export source set unset".split())  # ends with its line
BEFORE = frozenset("sudo time env exec nohup".split())
LONGEST = 80  # characters of a command in a note


def run_commands(text: str, note: Callable[[str], None]) -> None:
    """Do what the commands of one line mean for the notebook; `note` hears what was not run."""
    for command in commands_of(text):
        words = list(command.words)
        while words and (re.match(r"\w+=", words[0]) or words[0] in BEFORE):
            words = words[1:]
        name = os.path.basename(words[0]) if words else ""
        if name in INSTALLERS or (name.startswith("python") and words[1:3] in (["-m", "pip"], ["-m", "uv"])):
            note(INSTALLED)
        elif name in MADE and command.certain and (name == "mkdir" or command.path):
            try:
                MADE[name](words[1:], command)
            except (OSError, GetoptError, ValueError) as error:
                note(f"{_short(command)}: {error}: it was not run")
        elif name in OF_THE_SHELL or not words:
            continue
        elif (name in SHOWING or words[1:] in (["--version"], ["-V"])) and command.path in ("", os.devnull):
            note(SHOWN)
        else:
            note(f"a program that the script starts was not run: {_short(command)}")


def _mkdir(words: list[str], command: Command) -> None:
    _, folders = gnu_getopt(words, "pvm:", ["parents", "verbose", "mode="])
    for folder in folders:
        os.makedirs(folder, exist_ok=True)


def _echo(words: list[str], command: Command) -> None:
    """`echo text > file`."""
    options = ""
    while words and re.fullmatch("-[neE]+", words[0]):
        options += words.pop(0)
    text = " ".join(words)
    if "e" in options and "\\" in text:
        raise ValueError("escapes")
    with open(command.path, "a" if command.at_end else "w", encoding="utf-8") as file:
        file.write(text + ("" if "n" in options else "\n"))


def _short(command: Command) -> str:
    short = " ".join(command.text.split())
    return short if len(short) <= LONGEST else f"{short[:LONGEST]}…"


MADE = {"mkdir": _mkdir, "echo": _echo}
