"""Programs that a file starts and that train on a GPU, as a pack's step finds them.

    subprocess.run(["accelerate", "launch", "train.py"])

A file without a trainer that starts one is refused with what it starts: nobody may take it for one that trains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....source.module import Module
from ...packs.said_by_packs import training_libraries
from ...script.fill_from_tables import mentions_import
from ...script.sites import facts_of
from ...script.training import Training
from .embedded_scripts import trained_by

STARTED = "started programs"  # where a file remembers them
OF_A_PORT = {"jax", "tunix", "flax", "porter", "porter_runtime"}
PORT_IT = "Port what it trains, and start that port here; or leave it out."


@dataclass(frozen=True)
class Started:
    """A program, how it is called, and the file of the project that it runs ("" for none that is there).

    `comes`: whether the script starts it unless its user says another, None where that isn't known. `start`: its
    offset in the text, -1 where that has none. `rule`: whose it is.
    """

    rule: str
    program: str
    file: str
    comes: bool | None
    start: int
    line: int
    column: int

    @property
    def fix(self) -> str:
        return f"Port {self.file}, and start its port here; or leave it out." if self.file else PORT_IT


def say_started(porting: Training) -> str | None:
    """The first of the programs that a file without a trainer starts, each recorded as a finding; None for none."""
    found: Sequence[Started] = porting.module.memory.get(STARTED, ())
    for each in found:
        message = f"{each.program}: another program, which trains with torch on a GPU; this file only starts it."
        fix = f"Port {each.file} by itself, and start its port here." if each.file else PORT_IT
        porting.find(each.rule, "error", message, fix, each.line, each.column, todo=False)
    return found[0].program if found else None


def trains_on_gpu(module: Module, text: str) -> bool | None:
    """Whether a script with this text trains by torch: False of a port, None where the text doesn't tell."""
    if mentions_import(text, OF_A_PORT):
        return False
    return trained_by(text, training_libraries(facts_of(module))) is not None or None
