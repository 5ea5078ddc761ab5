"""An `if` whose condition the port has settled: the branch that runs is kept, the others go."""

from __future__ import annotations

import re

import libcst as cst

from ...text.edits import line_end, within
from ..script.porting import Porting
from ..script.sites import indentation

OTHER_BRANCH = "a branch that doesn't run"  # what such an edit takes out


def keep_branch(porting: Porting, holder: cst.If, taken: bool, rule: str, reason: str) -> bool:
    """Keep the body of an `if` (`taken`) or what stands behind it; False where its lines can't just be moved out."""
    module, other = porting.module, holder.orelse
    above = module.parents[holder]
    if isinstance(above, cst.If) and above.orelse is holder:
        return _keep_elif(porting, holder, above, taken, rule, reason)
    if not taken and other is None:
        porting.remove_statement(holder, rule, reason)
        return True
    start = module.span(holder)[0]
    if not taken and isinstance(other, cst.If):
        porting.edit(start, module.span(other)[0] + len("el"), "", rule, reason, part=OTHER_BRANCH)
        return True
    kept = holder.body if taken else other.body if other is not None else None
    head = module.span(holder.test)[1] if taken or other is None else module.span(other)[0] + len("else")
    return keep_block(porting, holder, kept, head, rule, reason)


def _keep_elif(porting: Porting, holder: cst.If, above: cst.If, taken: bool, rule: str, reason: str) -> bool:
    """The same of an `elif`: `else` in its place, or what stands behind it alone."""
    module, other = porting.module, holder.orelse
    start, stop = module.span(holder)
    body_end, above_end = (module.span(block.body[-1])[1] if block.body else 0 for block in (holder.body, above.body))
    if not taken and other is not None:
        porting.edit(start, module.span(other)[0], "", rule, reason, part=OTHER_BRANCH)
        return True
    if not all(isinstance(block, cst.IndentedBlock) for block in (holder.body, above.body)):
        return False
    if not taken:
        porting.edit(above_end, body_end, "", rule, reason, part=OTHER_BRANCH)
        return True
    head = re.compile(r"[\s)]*(?=:)").match(module.text, module.span(holder.test)[1])
    if head is None:
        return False
    porting.edit(start, head.end(), "else", rule, reason)
    if other is not None:
        porting.edit(body_end, stop, "", rule, reason, part=OTHER_BRANCH)
    return True


def keep_block(
    porting: Porting, holder: cst.If | cst.Try | cst.With, kept: cst.BaseSuite | None, head: int, rule: str, reason: str
) -> bool:
    """Keep one of a statement's blocks, whose header ends (but for its colon) at `head`."""
    module = porting.module
    start, stop = module.span(holder)
    if not isinstance(kept, cst.IndentedBlock):
        return False
    if all(porting.is_gone(statement, leaves=("", "pass")) for statement in kept.body):
        porting.remove_statement(holder, rule, reason)
        return True
    colon = re.compile(r"[\s)]*:[ \t]*\r?\n\s*").match(module.text, head)
    if colon is None:
        return False
    first, last = colon.end(), module.span(kept.body[-1])[1]  # comments above the first line stay
    for edit in sorted(porting.edits, key=lambda edit: edit.start):
        if start < edit.start <= first < edit.end and edit.removes:  # the first line goes
            first = edit.end + len(module.text[edit.end :]) - len(module.text[edit.end :].lstrip(" \t"))
    lines = module.text[first:last]
    if '"""' in lines or "'''" in lines or "\\\n" in lines:
        return False
    step = len(indentation(module.text, module.span(kept.body[0])[0])) - len(indentation(module.text, start))
    inside = [edit for edit in porting.edits if within(edit.start, [(first, last)])]
    # A block within this one that is kept, too, has moved its lines out already: they go further.
    blank = re.compile(r"[ \t]+")
    moves = {e.start: e.end for e in inside if e.removes and blank.fullmatch(module.text, e.start, e.end)}
    columns = []
    for found in re.finditer(rf"\n([ \t]{{{step}}})", lines):
        begin = first + found.start(1)
        while begin in moves:
            begin = moves[begin]
        columns.append((begin, begin + step))
    if any(module.text[begin:end].strip(" \t") for begin, end in columns):
        return False
    moved = {id(edit): edit.moved_out(step) for edit in inside}
    if None in moved.values():
        return False
    porting.edits[:] = [moved.get(id(edit)) or edit for edit in porting.edits]
    porting.edit(start, first, "", rule, reason, part=OTHER_BRANCH)
    for begin, end in columns:
        porting.edit(begin, end, "", rule, reason)
    if module.span(kept)[1] < stop and module.text[last:stop].strip():
        begin = len(module.text[: line_end(module.text, last)].rstrip("\r\n"))
        porting.edit(begin, stop, "", rule, reason, part=OTHER_BRANCH)
    return True
