"""A file of a script's project by the path that a command names: `python scripts/train.py`."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import NamedTuple

from ...errors import InputError
from ...files import is_file, plain_text
from .folders import project_folders
from .modules import LARGEST, project_file


class NamedFile(NamedTuple):
    """A file of the project: its path as it may be written beside the script, and its text."""

    path: str
    text: str


def named_file(script: str, name: str) -> NamedFile | None:
    """The file that a command run beside the script, or in a folder above it, would open; None where there is none.

    Outside of the project nothing is opened.
    """
    start = Path(os.path.realpath(script)).parent
    folders = project_folders(Path(os.path.realpath(script)))
    if PurePath(name).is_absolute():
        return None
    for folder in folders:
        path = Path(os.path.realpath(folder / name))
        if path.is_relative_to(folders[-1]) and is_file(path):
            try:
                return NamedFile(os.path.relpath(path, start), plain_text(path, LARGEST))
            except (OSError, InputError):
                return None
    return None


def named_module(script: str, name: str) -> NamedFile | None:
    """The file of the project that `python -m name` runs."""
    for each in (f"{name}.__main__", name):
        if path := project_file(script, each):
            return named_file(script, path) or named_file(script, f"src/{path}")
    return None
