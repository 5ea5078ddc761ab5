"""Edits: replacing parts of a text and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ..port import Edit


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with every edit made. ValueError when two edits overlap."""
    parts: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError(f"edits overlap at line {edit.line}: {edit.rule}")
        parts += [text[position : edit.start], edit.new]
        position = edit.end
    return "".join([*parts, text[position:]])


def without_inner(edits: Iterable[Edit]) -> list[Edit]:
    """The edits that stand in no larger edit: a replaced site takes what was inside it along.

    What is put in front of a replaced site stays in front of it.
    """
    kept: list[Edit] = []
    in_front: dict[int, str] = {}
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, -edit.end)):
        # A removal takes its line end along, which may reach over the edit around it.
        if kept and edit.start < kept[-1].end and (edit.end <= kept[-1].end or not edit.new):
            if edit.start == edit.end == kept[-1].start:
                in_front[edit.start] = in_front.get(edit.start, "") + edit.new
            continue
        kept.append(edit)
    fronts = [in_front.pop(edit.start, "") if edit.end > edit.start else "" for edit in kept]
    return [replace(edit, new=front + edit.new) if front else edit for edit, front in zip(kept, fronts, strict=True)]


def within(offset: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether one of the spans (start, end) holds an offset."""
    return any(start <= offset < end for start, end in spans)


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The lines of a statement that is taken out, grown so that no double blank lines stay behind.

    `start:end` is the statement without indentation, trailing comment and line end.
    """
    begin = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    line_end = re.compile(r"[^\r\n]*(\r\n|\r|\n|$)").match(text, end)
    stop = line_end.end() if line_end else end
    blank_before = begins_paragraph(text, begin)
    if blank_before:
        blanks = re.compile(r"([ \t\f]*(\r\n|\r|\n))*").match(text, stop)
        if blanks is not None:
            stop = blanks.end()
    return begin, stop


def comments_above(text: str, start: int) -> int:
    """The start of the comment lines right above the line that begins at `start`; `start` where there are none.

    The line above a notebook's cell is none.
    """
    found = re.search(r"(?:(?<![^\r\n])[ \t\f]*#(?! ?%%)[^\r\n]*(?:\r\n|\r|\n))+\Z", text[:start])
    return found.start() if found is not None else start


def begins_paragraph(text: str, start: int) -> bool:
    """Whether the line that begins at `start` is the first, or stands below a blank one."""
    return start == 0 or re.search(r"(^|\n|\r(?!\n))[ \t\f]*(\r\n|\r|\n)$", text[:start]) is not None


def joined_removals(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits, those that take out one statement after another grown so that one gap is left, not all of them."""
    runs: list[list[Edit]] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        last = runs[-1][-1] if runs else None
        if last and _is_removal(text, last) and _is_removal(text, edit) and not text[last.end : edit.start].strip():
            runs[-1].append(edit)
        else:
            runs.append([edit])
    return [edit for run in runs for edit in (_with_one_gap(text, run) if len(run) > 1 else run)]


def _is_removal(text: str, edit: Edit) -> bool:
    """Whether an edit takes out whole lines."""
    whole = text[edit.start - 1 : edit.start] in ("", "\n", "\r") and text[edit.end - 1 : edit.end] in ("\n", "\r")
    return edit.end > edit.start and not edit.new and whole


def _with_one_gap(text: str, run: Sequence[Edit]) -> list[Edit]:
    """Removals with nothing but blank lines between them; one of the gaps stays where no other parts what is left."""
    blank = re.compile(r"([ \t\f]*(\r\n|\r|\n))*")
    behind = blank.match(text, run[-1].end)
    after = behind.end() if behind is not None else run[-1].end
    before = begins_paragraph(text, run[0].start)
    gaps = [following.start - edit.end for edit, following in pairwise(run)]
    kept = -1 if before or after > run[-1].end else gaps.index(max(gaps))
    grown = [
        edit if index == kept else replace(edit, end=following.start)
        for index, (edit, following) in enumerate(pairwise(run))
    ]
    return [*grown, replace(run[-1], end=after) if before else run[-1]]
