"""The front door: one source file in, one Port out; nothing is run and nothing is written."""

from __future__ import annotations

from pathlib import Path

from ..port import Options, Port
from ..safety.limits import within_budget


def port_file(path: Path, options: Options | None = None) -> Port:
    """Port one Python file. InputError when it can't be read or parsed, takes too long, or an option is wrong."""
    from ..engine.pipeline import port_module
    from ..source.parsing import read_module

    given = options or Options()
    return within_budget(lambda: port_module(read_module(path, lazily=True), given), path, given.budget)
