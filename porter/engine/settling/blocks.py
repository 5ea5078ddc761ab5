"""Blocks of which every statement went: their header goes with them, or `pass` stays where something must."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ...source.conditions import is_elif
from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import whole_lines
from ..script.porting import Porting
from ..script.sites import can_not_fail
from ..steps.step import Phase, step

RULE = "TP001"
REASON = "nothing is left in the block"


@step(Phase.SETTLE, reads=("functions",))
def close_empty_blocks(porting: Porting) -> None:
    """Take out `if` and `try` statements that have nothing left to do, innermost first; others keep a `pass`."""
    porting.edits = without_empty_blocks(porting.module, porting.edits)


def without_empty_blocks(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """The edits, those that leave a block without a statement replaced by one of it, or of its `if` or `try`."""
    found = list(edits)
    gone = [(edit.start, edit.end) for edit in found if edit.end > edit.start and edit.removes]
    if not gone:
        return found
    blocks = [node for node in module.parents if isinstance(node, cst.IndentedBlock)]
    for block in sorted(blocks, key=lambda node: -module.span(node)[0]):
        spans = [module.span(statement) for statement in block.body]
        if not all(any(start <= first and last <= end for start, end in gone) for first, last in spans):
            continue
        holder = module.parents[block]
        begin, stop = whole_lines(module.text, spans[0][0], spans[-1][1])
        start, end, new = spans[0][0], spans[-1][1], "pass"
        headed = not any(
            first <= module.span(holder)[0] < last for first, last in gone
        )  # else its `except` stays alone
        nothing_to_catch = headed and can_not_fail(holder, block)
        if (isinstance(holder, cst.If) and holder.orelse is None and not is_elif(module, holder)) or nothing_to_catch:
            begin, stop = start, end = whole_lines(module.text, *module.span(holder))
            new = ""
            gone.append((begin, stop))
        if any(edit.start < begin and edit.end >= stop for edit in found):
            continue  # the header goes anyway
        if any(_puts_in(edit, [first for first, _ in spans]) for edit in found):
            continue  # what is put in is all of the block
        around = (begin, module.span(holder)[0], stop)
        found = [edit for edit in found if _puts_in(edit, around) or not (begin <= edit.start and edit.end <= stop)]
        line, column = module.line_column(start)
        found.append(Edit(start, end, new, RULE, REASON, line, column))
    return found


def _puts_in(edit: Edit, starts: Sequence[int]) -> bool:
    """Whether an edit puts a statement in front of the one that starts at one of `starts`."""
    return edit.start == edit.end and edit.start in starts and not edit.removes
