"""Keywords that a library takes no notice of go from a call that stays in the port, whose class would refuse them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import libcst as cst

from ...text.edits import whole_lines
from ..script.porting import Porting
from ..script.sites import Argument
from ..steps.step import Phase, step

REASON = "transformers ignores what it doesn't know here"


@step(Phase.WRITE, of="trainer", fills=("dropped",))
def drop_ignored(porting: Porting) -> None:
    """Take out what was read as ignored."""
    for rule, arguments in porting.ignored:
        _take_out(porting, arguments, rule, REASON)


def _take_out(porting: Porting, arguments: Sequence[Argument], rule: str, reason: str) -> None:
    """Keywords go from their call, neighbours together, with the comma that parts them from the one beside them."""
    module = porting.module
    gone = [
        given for item in arguments if item.node is not None and (given := module.parents.get(item.node)) is not None
    ]
    call = module.parents.get(gone[0]) if gone else None
    if not isinstance(call, cst.Call) or not all(given in call.args for given in gone):
        return
    there = list(call.args)
    for _, run in itertools.groupby(enumerate(there), lambda item: item[1] in gone):
        places = [at for at, given in run if given in gone]
        if not places:
            continue
        first, last = places[0], places[-1]
        start, end = module.span(there[first])[0], module.span(there[last].value)[1]
        if last + 1 < len(there):
            end = module.span(there[last + 1])[0]
        elif first:
            before = module.span(there[first - 1].value)[1]
            if "#" in module.text[before:start]:  # a comment of the one before: it and its comma stay
                comma = re.compile(r"\s*,").match(module.text, end)
                start, end = whole_lines(module.text, start, comma.end() if comma is not None else end)
            else:
                start = before
        porting.edit(start, end, "", rule, reason)
