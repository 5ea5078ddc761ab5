"""What a notebook's shell lines mean for the rest of it: folders and short files are made, no program is run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable

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
COMMANDS = re.compile(r"\s*(?:&&|\|\||;)\s*")
REDIRECTED = (">", ">>")
LONGEST = 80  # characters of a command in a note


def run_commands(text: str, note: Callable[[str], None]) -> None:
    """Do what the commands of one line mean for the notebook; `note` hears what was not run."""
    for command in COMMANDS.split(text.strip()):
        words = _words(command)
        while words and (re.match(r"\w+=", words[0]) or words[0] in BEFORE):
            words = words[1:]
        name = os.path.basename(words[0]) if words else "true"
        if name in INSTALLERS or (name.startswith("python") and words[1:3] in (["-m", "pip"], ["-m", "uv"])):
            note(INSTALLED)
        elif name == "mkdir":
            for folder in (word for word in words[1:] if not word.startswith("-")):
                os.makedirs(folder, exist_ok=True)
        elif name == "echo" and set(words[:-1]) & {*REDIRECTED}:
            _write(words)
        elif name in OF_THE_SHELL:
            continue
        elif name in SHOWING or words[1:] in (["--version"], ["-V"]):
            note(SHOWN)
        else:
            short = " ".join(command.split())
            shown = short if len(short) <= LONGEST else f"{short[:LONGEST]}…"
            note(f"a program that the script starts was not run: {shown}")


def _write(words: list[str]) -> None:
    """`echo text > file`."""
    at = next(place for place, word in enumerate(words) if word in REDIRECTED)
    with open(words[at + 1], "a" if words[at] == ">>" else "w", encoding="utf-8") as file:
        file.write(" ".join(words[1:at]) + "\n")


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:
        return command.split()
