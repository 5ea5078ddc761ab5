"""Calls that make a line of the port too long: laid out on several lines, as the writers lay out theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...source.module import Module
from ...text.edit import Edit
from ...text.edits import apply_edits, line_end, line_start
from ...text.layout import WIDTH, Arg, Call, render
from ...text.marks import columns
from ..script.sites import indentation

PAIRS = {"(": ")", "[": "]", "{": "}"}
QUOTES = ("'", '"')


def without_long_lines(module: Module, edits: Sequence[Edit]) -> list[Edit]:
    """The edits; one whose new code is a call of one line that leaves the width is broken at its arguments."""
    return [_wrapped(module, edit, edits) for edit in edits]


def _wrapped(module: Module, edit: Edit, edits: Sequence[Edit]) -> Edit:
    text = module.text
    if not edit.new.endswith(")") or "\n" in edit.new or len(edit.new) < WIDTH // 4:
        return edit
    start, stop = line_start(text, edit.start), line_end(text, edit.end)
    before, behind = (_made(text, place, edits) for place in ((start, edit.start), (edit.end, stop)))
    if "\n" in before or columns(before + edit.new + behind.rstrip("\r\n")) <= WIDTH:
        return edit
    call = _call(edit.new)
    if call is None or any(before.count(quote) % 2 for quote in QUOTES):  # in a string, of a format string too
        return edit
    taken = columns(before.lstrip()) + columns(behind.rstrip("\r\n"))
    return replace(edit, new=render(call, indentation(text, edit.start), module.indent, taken))


def _made(text: str, place: tuple[int, int], edits: Sequence[Edit]) -> str:
    """What becomes of a stretch of the source."""
    start, stop = place
    inner = [edit for edit in edits if start <= edit.start and edit.end <= stop and edit.start < edit.end]
    return apply_edits(text[start:stop], [replace(e, start=e.start - start, end=e.end - start) for e in inner])


def _call(code: str) -> Call | None:
    """`name = f(a, b)` by its arguments; None where the code doesn't end with the call that its first bracket opens."""
    opens = code.find("(")
    places = list(_outside(code, opens + 1)) if opens > 0 else []
    if not places or places[-1] != len(code) - 1 or any(bracket in code[:opens] for bracket in "[{'\"#"):
        return None
    commas = [place for place in places[:-1] if code[place] == ","]
    starts = [opens + 1, *(place + 1 for place in commas)]
    parts = [code[a:b].strip() for a, b in zip(starts, [*commas, places[-1]], strict=True)]
    return Call(code[:opens], [Arg(part) for part in parts if part])


def _outside(code: str, start: int) -> Iterator[int]:
    """The places of the commas of a call, whose arguments start there, and of the bracket that closes it."""
    depth, quote, place = 1, "", start
    while place < len(code):
        char = code[place]
        if quote:
            if char == "\\":
                place += 1
            elif char == quote:
                quote = ""
        elif char in QUOTES:
            quote = char
        elif char in PAIRS:
            depth += 1
        elif char in PAIRS.values():
            depth -= 1
            if not depth:
                yield place
                return
        elif char == "," and depth == 1:
            yield place
        place += 1
