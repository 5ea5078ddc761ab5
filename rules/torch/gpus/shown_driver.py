"""A notebook's line that shows what NVIDIA's driver says, for the reader alone.

!nvidia-smi
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import line_end

from ._drivers import COMMAND

PART_OF = "TP513"
REASON = "tells of a GPU"
SHOWS = re.compile(rf"!\s*{COMMAND}(?![\w-])[^|;&<>\\]*\s*")  # what it prints goes nowhere else


@step(Phase.ANSWER, fills=("claimed names",))
def drop_shown_driver(porting: Porting) -> None:
    """Such lines go: a TPU machine doesn't have the command."""
    module = porting.module
    if not module.has_magics or COMMAND not in module.text:
        return
    for node in [node for node in module.parents if isinstance(node, cst.Expr)]:
        start = module.span(node)[0]  # of what stands in for the line
        if SHOWS.fullmatch(module.text[start : line_end(module.text, start)]):
            porting.remove_statement(node.value, PART_OF, REASON)
