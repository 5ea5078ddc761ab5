"""What other files of a folder import of a script stays, though nothing in the script itself reads it any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.tree import port_tree
from porter.port import Options

from ..engine.test_unused import PLACE, script
from .projects import project

LOADED = "device_map=device_map"
SCRIPT = script(f"{PLACE}\nLOW = True").replace(LOADED, f"{LOADED}, low_cpu_mem_usage=LOW", 1)
GOES = {"LOW": "LOW = True", "device_map": 'device_map = "auto"', "weights_of": "def weights_of(named):"}


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ("print(1)", []),
        ("from train import LOW", ["LOW"]),
        ("from train import weights_of as of", ["weights_of"]),
        ("from train import device_map", ["device_map"]),
        ("import train\nprint(train.LOW)", ["LOW"]),
        ("from train import *\nprint(LOW, weights_of)", ["LOW", "weights_of"]),
        ("from train import mine\nLOW = 1\nprint(LOW)", []),
    ],
)
def test_what_others_import_stays(tmp_path: Path, other: str, stays: list[str]) -> None:
    """The other file stays as it is, and ended at its import."""
    project(tmp_path, {"train.py": SCRIPT, "other.py": f"{other}\n"})
    after = port_tree(tmp_path, Options(processes=1), jobs=1).ports[Path("train.py")].after
    assert [name for name, line in GOES.items() if line in after] == stays
