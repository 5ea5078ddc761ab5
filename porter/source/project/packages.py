"""Packages that a project lists or a script installs, by what an import of that name would be."""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import InputError
from .release_files import COMMANDS, files_around, text_of
from .requirements import PIP_INSTALL


def packages_of_project(script: Path) -> dict[str, str]:
    """Packages that requirements beside `script` and above list, by what an import of that name would be."""
    found: dict[str, str] = {}
    for file in files_around(script):
        if "lock" in file.name or COMMANDS.search(file.name):
            continue
        try:
            text = text_of(file)
        except (OSError, InputError):
            continue
        item = "" if file.suffix == ".txt" else "(?:- |[\"'])"  # of a list, in what isn't one itself
        for name in re.findall(rf"(?m)^[ \t]*{item}([A-Za-z][\w.-]*\w)(?=[\[<>=~!;,\"'\s]|$)", text):
            found.setdefault(name.lower().replace("-", "_"), name)
    return found


def packages_installed(text: str) -> dict[str, str]:
    """Packages that a script's own `pip install` lines name, by what an import of that name would be."""
    found: dict[str, str] = {}
    for words in PIP_INSTALL.findall(text):
        takes_value = False
        for word in re.findall(r"[^\s\"'`,()]+", words):
            name = re.match(r"[A-Za-z][\w.-]*\w(?=$|[\[<>=~!;@])", word)
            if name is not None and not takes_value:
                found.setdefault(name[0].lower().replace("-", "_").replace(".", "_"), name[0])
            takes_value = word in ("-r", "-c", "-e", "-f", "-i", "--index-url", "--extra-index-url", "--find-links")
    return found
