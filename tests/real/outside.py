"""Scripts of this repository in folders outside of it.

A run copies its script's project, and searches that for modules and data: seconds where it is the whole repository.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]


@cache
def outside(folder: Path) -> Path:
    """A copy of `folder`, which lasts as long as this process."""
    home = tempfile.mkdtemp(prefix="tpu-port-scripts-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return Path(shutil.copytree(folder, Path(home, folder.name), ignore=shutil.ignore_patterns("__pycache__")))


SCRIPTS = outside(HERE / "scripts")
DIALECTS = SCRIPTS / "dialects"
EXAMPLES = outside(REPOSITORY / "examples")


def case(name: str) -> Path:
    """The folder of a rule's case, `transformers/cases/trainer_supervised_dataset`."""
    return outside(REPOSITORY / "rules" / name)
