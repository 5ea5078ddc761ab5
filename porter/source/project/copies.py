"""Libraries that lie in a script's project: what it imports from there is of the release that the copy names.

`from unsloth.unsloth import FastLanguageModel`, beside a folder `unsloth/unsloth` with `__version__ = "2024.6"`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ...files import is_file, plain_text

NAMED_IN = ("__init__.py", "version.py", "_version.py", "models/_utils.py")  # of a package's files
RELEASE = re.compile(r"(?m)^__version__\s*(?::\s*str\s*)?=\s*[\"'](\d+(?:\.\d+)+)")
MAX_BYTES = 500_000


def copy_of(folders: Sequence[Path], text: str, library: str) -> tuple[str, str] | None:
    """The file of a copy of `library` that names its release, and the release; None where the script imports none.

    `folders`: the script's own and those above it, where Python may look for modules. A package of that name which
    names no release is another one.
    """
    if library not in text:
        return None
    dotted = re.findall(rf"(?m)^[ \t]*(?:from|import)[ \t]+((?:\w+\.)*{re.escape(library)})\b", text)
    for package in sorted(set(dotted), key=len, reverse=True):
        for folder in folders:
            for name in NAMED_IN:
                file = folder.joinpath(*package.split("."), name)
                if is_file(file) and (release := _release_in(file)) is not None:
                    return file.relative_to(folder).as_posix(), release
    return None


def _release_in(file: Path) -> str | None:
    with contextlib.suppress(OSError, InputError):
        found = RELEASE.search(plain_text(file, MAX_BYTES))
        return found[1] if found else None
    return None
