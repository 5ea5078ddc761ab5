"""Blocks of which every statement went: their header goes with them, or `pass` stays where something must."""

from __future__ import annotations

import libcst as cst

from .edits import whole_lines
from .porting import Porting

RULE = "TP001"
REASON = "nothing is left in the block"


def close_empty_blocks(porting: Porting) -> None:
    """Take out `if` statements that have nothing left to do, innermost first; other headers keep a `pass`."""
    module = porting.module
    gone = [(edit.start, edit.end) for edit in porting.edits if edit.end > edit.start and not edit.new.strip()]
    if not gone:
        return
    blocks = [node for node in module.parents if isinstance(node, cst.IndentedBlock) and len(node.body) > 1]
    for block in sorted(blocks, key=lambda node: -module.span(node)[0]):
        spans = [module.span(statement) for statement in block.body]
        if not all(any(start <= first and last <= end for start, end in gone) for first, last in spans):
            continue
        holder = module.parents[block]
        parent = module.parents.get(holder)
        is_elif = isinstance(parent, cst.If) and parent.orelse is holder
        if isinstance(holder, cst.If) and holder.orelse is None and not is_elif:
            begin, stop = whole_lines(module.text, *module.span(holder))
            porting.edits = [edit for edit in porting.edits if not (begin <= edit.start and edit.end <= stop)]
            porting.edit(begin, stop, "", RULE, REASON)
            gone.append((begin, stop))
        else:
            first, last = spans[0][0], spans[-1][1]
            begin, stop = (
                whole_lines(module.text, spans[0][0], spans[0][1])[0],
                whole_lines(module.text, first, last)[1],
            )
            porting.edits = [edit for edit in porting.edits if not (begin <= edit.start and edit.end <= stop)]
            porting.edit(first, last, "pass", RULE, REASON)
