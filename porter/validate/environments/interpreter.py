"""An interpreter that a source can run with: asked what it has, before a script is started in it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError

OLDEST = (3, 10)
NEEDED = ("torch", "transformers", "numpy")
ASKED = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "numpy")
PROBE = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps({"python": list(sys.version_info[:3]), "releases": found}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python and the releases that it has, by library."""

    path: Path
    python: tuple[int, ...]
    releases: dict[str, str]

    def __str__(self) -> str:
        named = [f"{name} {self.releases[name]}" for name in ("trl", "transformers", "torch") if name in self.releases]
        return ", ".join(named)


def ask(path: Path) -> Interpreter:
    """What the interpreter at `path` is and has.

    InputError when it can't run, is too old for the observers, or lacks torch or transformers.
    """
    path = path / "bin" / "python" if path.is_dir() else path
    if not path.is_file():
        raise InputError("no such interpreter", path, fix="name a Python, such as ~/venv/bin/python")
    try:
        # -I: nothing of the current folder or of PYTHONPATH is imported.
        done = subprocess.run(
            [str(path.absolute()), "-I", "-c", PROBE, *ASKED], capture_output=True, text=True, timeout=60, check=False
        )
        said = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        raise InputError("is not a Python that runs", path, fix="name a Python, such as ~/venv/bin/python") from None
    python, releases = tuple(said["python"]), dict(said["releases"])
    if python[:2] < OLDEST:
        version, oldest = ".".join(map(str, python)), ".".join(map(str, OLDEST))
        raise InputError(f"is Python {version}; {oldest} or newer is needed to watch a source", path)
    missing = [name for name in NEEDED if name not in releases]
    if missing:
        fix = f"install it there, or leave out --source-python: {path} -m pip install {' '.join(missing)}"
        raise InputError(f"has no {' and no '.join(missing)}", path, fix=fix)
    return Interpreter(path, python, releases)
