"""Edits: replacing parts of a text and nothing else."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from .edit import Edit


class EditsOverlap(ValueError):
    """Two rules want the same text, at `line`."""

    def __init__(self, edit: Edit) -> None:
        super().__init__(f"edits overlap at line {edit.line}: {edit.rule}")
        self.line = edit.line


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with every edit made. EditsOverlap when two of them do."""
    parts: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise EditsOverlap(edit)
        parts += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*parts, text[position:]])


def without_inner(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits that stand in no larger edit: a replaced site takes what was inside it along.

    What is put in front of a replaced or removed statement stays in front of it. A removal is no larger than its
    statement: the blank lines that it takes along are an edit's that stands among them, and its indentation, comments
    and line end are an edit's that is around the statement.
    """
    kept: list[Edit] = []
    in_front: dict[int, Edit] = {}
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, -edit.end)):
        last = kept[-1] if kept else None
        if last is None or edit.start >= last.end:
            kept.append(edit)
            continue
        first, stop = (last.start, last.end) if last.new else _statement_in(text, last)
        below = "\n" in text[stop : edit.start] or "\r" in text[stop : edit.start]
        if below and edit.new:
            kept[-1] = replace(last, end=edit.start)
            kept.append(edit)
        elif not last.new and edit.start <= first and stop <= edit.end and edit.end - edit.start > stop - first:
            kept[-1] = edit
            if last.start in in_front:
                in_front[edit.start] = in_front.pop(last.start)
        elif edit.end <= last.end or (not edit.new and _statement_in(text, edit)[1] <= last.end):
            if edit.start == edit.end == last.start:
                in_front[last.start] = _behind(in_front.get(last.start), edit)
            elif edit.start == edit.end == first:  # behind the indentation of what is taken out
                indented = replace(edit, new=text[last.start : first] + edit.new.rstrip(" \t"))
                in_front[last.start] = _behind(in_front.get(last.start), indented)
        elif not last.new and not edit.new:  # two keywords of a call, each with the comma between them
            kept[-1] = _both(text, last, edit)
        else:
            kept.append(edit)  # two rules want the same text: `apply_edits` says so
    fronts = [in_front.pop(edit.start, None) if edit.end > edit.start else None for edit in kept]
    return [
        edit.below(front.new, front.carries) if front is not None else edit
        for edit, front in zip(kept, fronts, strict=True)
    ]


def _behind(first: Edit | None, edit: Edit) -> Edit:
    """An insertion behind another at its place, as one."""
    return edit.below(first.new, first.carries) if first is not None else edit


def _both(text: str, first: Edit, last: Edit) -> Edit:
    """The removal of neighbouring keywords, the last of which took the comma before it; a comma behind it goes, too."""
    comma = re.compile(r"\s*,").match(text, last.end)
    return replace(first, end=comma.end() if comma is not None else last.end)


ABOVE = re.compile(r"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*[ \t\f]*")


def _statement_in(text: str, removal: Edit) -> tuple[int, int]:
    """Start and end of what a removal takes out, without comments, indentation and blank lines around it."""
    above = ABOVE.match(text, removal.start, removal.end)
    start = above.end() if above is not None else removal.start
    whole = text[start : removal.end].rstrip()
    code, mark, comment = whole.rpartition("#")
    if mark and code[-1:] in (" ", "\t") and not re.search(r"['\"\r\n]", comment):
        whole = code.rstrip()
    return start, start + len(whole)


def within(offset: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether one of the spans (start, end) holds an offset."""
    return any(start <= offset < end for start, end in spans)


class Spans:
    """Many spans (start, end), which are asked for many offsets."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self.starts = [start for start, _ in ordered]
        self.ends = [*accumulate((end for _, end in ordered), max)]  # the last end of all that begin so far

    def __contains__(self, offset: int) -> bool:
        """Whether one of the spans holds an offset."""
        begun = bisect_right(self.starts, offset)
        return begun > 0 and offset < self.ends[begun - 1]


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The lines of a statement that is taken out, grown so that no double blank lines stay behind.

    `start:end` is the statement without indentation, trailing comment and line end.
    """
    begin = line_start(text, start)
    stop = line_end(text, end)
    if opens(text, begin):
        blanks = BLANKS.match(text, stop)
        if blanks is not None:
            stop = blanks.end()
    return begin, stop


COMMENT = re.compile(r"[ \t\f]*#(?! ?%%)")
HEADER = re.compile(r":[ \t\f]*(#[^\r\n]*)?(\r\n|\r|\n)$")  # the end of a line that opens a block
BLANKS = re.compile(r"([ \t\f]*(\r\n|\r|\n))*")


def comments_above(text: str, start: int) -> int:
    """The start of the comment lines right above the line that begins at `start`; `start` where there are none.

    The line above a notebook's cell is none.
    """
    while (above := line_above(text, start)) < start and COMMENT.match(text, above):
        start = above
    return start


def begins_paragraph(text: str, start: int) -> bool:
    """Whether the line that begins at `start` is the first, or stands below a blank one."""
    above = line_above(text, start)
    return start == 0 or (above < start and not text[above:start].strip(" \t\f\r\n"))


def opens(text: str, start: int) -> bool:
    """Whether the line that begins at `start` is the first of a paragraph, or of a block: the gap behind is its own."""
    if begins_paragraph(text, start):
        return True
    above = text[line_above(text, start) : start]
    deeper = len(indentation_of(text, start).expandtabs()) > len(_indentation(above).expandtabs())
    return deeper and COMMENT.match(above) is None and HEADER.search(above) is not None


def line_start(text: str, offset: int) -> int:
    """The start of the line in which `offset` lies."""
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def line_end(text: str, offset: int) -> int:
    """The end of the line in which `offset` lies, behind what ends it: LF, CRLF or CR."""
    found = re.compile(r"[^\r\n]*(\r\n|\r|\n|$)").match(text, offset)
    return found.end() if found else offset


def line_above(text: str, start: int) -> int:
    """The start of the line above the one that begins at `start`; `start` where none does, or it is the first."""
    if text[start - 1 : start] not in ("\n", "\r"):
        return start
    return line_start(text, start - 2 if text[start - 2 : start] == "\r\n" else start - 1)


def without_orphans(text: str, edits: Sequence[Edit], kept: Sequence[int] = ()) -> list[Edit]:
    """The edits, those that take out all that a comment heads grown by that comment.

    A comment heads what follows it up to a blank line, or to the end of its block; one line of comment between lines of
    code up to the next comment, too. That at the file's top stays, and so do those of which something is said at an
    offset of `kept`. One that numbers a step (`# 1. Load`) heads all up to the next of these.
    """
    grown = {id(edit): edit for edit in edits}
    starts = sorted(edit.start for edit in edits)
    for run in _runs(text, edits):
        if not _is_removal(text, run[0]):
            continue
        begin, end = run[0].start, run[-1].end
        above = comments_above(text, begin)
        if above == begin or not text[:above].strip():
            continue
        further = begins_paragraph(text, run[-1].start) and begins_paragraph(text, end)  # a paragraph below went, too
        if not further and not _ends_paragraph(text, end, above) and not _is_step(text, above, begin, end):
            continue
        others = bisect_right(starts, end) - bisect_left(starts, above) > len(run)
        if others or any(above <= place <= end for place in kept):
            continue
        blanks = BLANKS.match(text, end)
        stop = blanks.end() if blanks is not None else end
        free = bisect_left(starts, stop) <= bisect_right(starts, end)
        if _numbers_more(text, above, begin, stop):
            if free:
                grown[id(run[-1])] = replace(grown[id(run[-1])], end=stop)
            continue
        grown[id(run[0])] = replace(grown[id(run[0])], start=above)
        if opens(text, above) and free:
            grown[id(run[-1])] = replace(grown[id(run[-1])], end=stop)
    return [grown[id(edit)] for edit in edits]


NUMBERED = re.compile(r"[ \t\f]*#[ \t#=*─-]*(?:step|part|section)?[ \t]*\d+[ \t]*[.):]", re.IGNORECASE)


def _numbers_more(text: str, above: int, begin: int, behind: int) -> bool:
    """Whether the comment lines `above:begin` number a step that goes on `behind` what they stand at."""
    lines = text[above:begin].splitlines()
    numbered = any(NUMBERED.match(line) for line in lines)
    following = text[behind : line_end(text, behind)]
    alike = bool(lines) and bool(following.strip()) and _indentation(following) == _indentation(lines[0])
    return numbered and alike and COMMENT.match(following) is None


def _indentation(line: str) -> str:
    """The blanks in front of a line's text."""
    return line[: len(line) - len(line.lstrip())]


def _ends_paragraph(text: str, end: int, begin: int) -> bool:
    """Whether a blank line, less indentation than at `begin` or nothing follows."""
    following = re.compile(r"([ \t\f]*)([^\r\n]?)").match(text, end)
    own = re.compile(r"[ \t\f]*").match(text, begin)
    if following is None or own is None or not following[2]:
        return True
    return len(following[1].expandtabs()) < len(own[0].expandtabs())


def _is_step(text: str, above: int, begin: int, end: int) -> bool:
    """Whether one line of comment below code heads what goes, and another comment what follows it."""
    alone = line_above(text, begin) == above and not begins_paragraph(text, above)
    last = text[line_above(text, above) : above].rstrip()
    following = COMMENT.match(text, end)
    same = following is not None and indentation_of(text, end) == indentation_of(text, above)
    return alone and same and not last.endswith((":", "(", "[", "{"))


def indentation_of(text: str, start: int) -> str:
    """The blanks with which a line begins."""
    found = re.compile(r"[ \t\f]*").match(text, start)
    return found.group() if found else ""


def joined_removals(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits, those that take out one statement after another grown so that one gap is left, not all of them."""
    runs = _runs(text, edits)
    ends = [run[0].start for run in runs[1:]] + [len(text)]
    return [
        edit
        for run, end in zip(runs, ends, strict=False)
        for edit in (_with_one_gap(text, run, end) if len(run) > 1 else run)
    ]


def _runs(text: str, edits: Iterable[Edit]) -> list[list[Edit]]:
    """The edits in order, removals with nothing but blank lines between them together."""
    runs: list[list[Edit]] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        last = runs[-1][-1] if runs else None
        if last and _is_removal(text, last) and _is_removal(text, edit) and not text[last.end : edit.start].strip():
            runs[-1].append(edit)
        else:
            runs.append([edit])
    return runs


def _is_removal(text: str, edit: Edit) -> bool:
    """Whether an edit takes out whole lines."""
    whole = text[edit.start - 1 : edit.start] in ("", "\n", "\r") and text[edit.end - 1 : edit.end] in ("\n", "\r")
    return edit.end > edit.start and not edit.new and whole


def _with_one_gap(text: str, run: Sequence[Edit], limit: int) -> list[Edit]:
    """Removals with nothing but blank lines between them; one of the gaps stays where no other parts what is left.

    The next edit begins at `limit`.
    """
    behind = BLANKS.match(text, run[-1].end, limit)
    after = behind.end() if behind is not None else run[-1].end
    before = opens(text, run[0].start)
    gaps = [following.start - edit.end for edit, following in pairwise(run)]
    kept = -1 if before or after > run[-1].end else gaps.index(max(gaps))
    grown = [
        edit if index == kept else replace(edit, end=following.start)
        for index, (edit, following) in enumerate(pairwise(run))
    ]
    return [*grown, replace(run[-1], end=after) if before else run[-1]]
