"""Files of a project that make the machine which a script runs on, and say what is installed there.

`Image.debian_slim().pip_install("transformers==4.35.0")` of Modal, `HuggingFace(entry_point="train.py",
transformers_version="4.44")` of SageMaker.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text
from .folders import files_in, project_folders

MAX_BYTES = 2_000_000  # of a file that is looked into
MOST_FILES = 60  # of a folder
IMPORTED = re.compile(r"(?m)^[ \t]*(?:from[ \t]+\.*([A-Za-z][\w.]*)[ \t]+import|import[ \t]+([A-Za-z][\w.]*))")
INSTALLS = re.compile(r"\bpip_install\(([^()]*)\)")
TELLS = re.compile(r"\bpip_install\(|\w_version\s*=\s*\\?[\"']\d|\binstance_type\s*=")
PATTERNS = ("*.py", "*.ipynb", "scripts/*.py", "launch*/*.py", "sagemaker/*.py", "notebooks/*.ipynb")


def images_of(script: Path, text: str, launchers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is installed into the image that `script`, whose imports are in `text`, runs in: the file, and the words.

    It is that of a module of the project which makes images and is imported, or of one of `launchers` (`launchers_of`).
    """
    folders = project_folders(script)
    names = [next(filter(None, groups)) for groups in IMPORTED.findall(text)]
    places = [folder.joinpath(*name.split(".")).with_suffix(".py") for name in names for folder in folders]
    held = [(file.name, _telling(file)) for file in dict.fromkeys(place for place in places if is_file(place))]
    for where, words in dict.fromkeys((*held, *launchers)):
        for found in INSTALLS.findall(re.sub(r"#[^\n]*", "", words)):
            yield where, found


def containers_of(script: Path, library: str, launchers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Which release of `library` is in the container that a launcher makes for `script`: the file, and `4.44`."""
    entry = re.compile(rf"\bentry_point\s*=\s*\\?[\"'][\w./-]*\b{re.escape(script.name)}\\?[\"']")
    version = re.compile(rf"\b{re.escape(library)}_version\s*=\s*\\?[\"'](\d+(?:\.\d+)+)\\?[\"']")
    for where, words in launchers:
        if entry.search(words) and (found := version.findall(words)):
            yield where, found[-1]


def launchers_of(script: Path) -> Iterator[tuple[str, str]]:
    """The other files of the project's folders that name a script, and say what is installed or on which machine."""
    named = re.compile(rf"\b{re.escape(script.name)}\b")
    for folder in project_folders(script):
        files = [file for found in files_in(folder, PATTERNS) for file in found if file.name != script.name]
        for file in files[:MOST_FILES]:
            words = _telling(file)
            if named.search(words):
                yield file.name, words


def _telling(file: Path) -> str:
    """The text of a file that says what is installed, of another nothing."""
    try:
        found = os.stat(file)
        return _read(file, found.st_mtime_ns, found.st_size)
    except (OSError, InputError):
        return ""


@lru_cache(maxsize=512)
def _read(file: Path, changed: int, size: int) -> str:
    text = plain_text(file, MAX_BYTES)
    return text if TELLS.search(text) is not None else ""
