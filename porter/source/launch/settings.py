"""One setting of a launch: what the launch files' readers give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH = "accelerate.launch_config"
INLINE = (".yaml", ".yml")  # accelerate's own file, which sets the clipping that it leaves out


@dataclass(frozen=True)
class Setting:
    """One setting of a launch file: its name there (without the section), value and line.

    `row` is its name in the table `table`, where that differs; `file` is the file it was read in. `usual`: the value
    is a default of the shell's, `${1:-8}`, which an argument or a variable from outside may change.
    """

    name: str
    value: Any
    line: int
    row: str = ""
    table: str = LAUNCH
    file: Path = Path()
    usual: bool = False
