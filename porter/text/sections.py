"""Banners, `# ===== GPU =====`: comments with a drawn rule, which head all that follows them up to the next one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .edit import Edit
from .edits import BLANKS, indentation_of, line_end, opens

DRAWN = re.compile(r"([-=#*~_+─━═])\1{2,}")
LINE = re.compile(r"[ \t\f]*([^\r\n]?)[^\r\n]*(\r\n|\r|\n|$)")
CELL = re.compile(r"# ?%%")
LIGHT = "-~_─"  # rules of parts of a section that has another


@dataclass(frozen=True)
class Banner:
    """Comment lines `start:end` of a text, and how high they rank: as a box or a line, of a heavy rule or a light."""

    start: int
    end: int
    rank: tuple[bool, bool]


def without_bare_banners(text: str, edits: Sequence[Edit], kept: Sequence[int] = ()) -> list[Edit]:
    """The edits, those that leave nothing of what a banner heads grown by the banner.

    It heads what follows it up to one of its rank or a higher, a notebook's next cell, or the end of its block. That at
    the file's top stays, and so do those of which something is said at an offset of `kept`.
    """
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    banners = {banner.start: banner for banner in _banners(text)}
    for banner in reversed(banners.values()):
        first = bisect_left(ordered, banner.end, key=lambda edit: edit.start)
        if first == len(ordered) or text[banner.end : ordered[first].start].strip() or not text[: banner.start].strip():
            continue
        end = _end_of(text, banner, banners)
        stop = bisect_left(ordered, end, key=lambda edit: edit.start)
        own = ordered[first:stop]
        around = first and ordered[first - 1].end > banner.start
        if around or any(banner.start <= place < end for place in kept) or not _take_all(text, own, end):
            continue
        own[0] = replace(own[0], start=banner.start)
        own[-1] = replace(own[-1], end=_gap_end(text, own[-1], opens(text, banner.start)))
        ordered[first:stop] = own
    return ordered


def _take_all(text: str, edits: Sequence[Edit], end: int) -> bool:
    """Whether edits take out whole parts of a text, and leave nothing but blanks up to `end`."""
    if not edits or edits[-1].end > end or any(edit.new or edit.start == edit.end for edit in edits):
        return False
    stops = [*(edit.start for edit in edits[1:]), end]
    return not any(text[edit.end : stop].strip() for edit, stop in zip(edits, stops, strict=True))


def _gap_end(text: str, removal: Edit, takes_gap: bool) -> int:
    """Where a removal ends with, or without, the blank lines behind it."""
    if not takes_gap:
        return line_end(text, removal.start + len(text[removal.start : removal.end].rstrip()))
    blanks = BLANKS.match(text, removal.end)
    return max(removal.end, blanks.end() if blanks is not None else removal.end)


def _banners(text: str) -> list[Banner]:
    """The runs of comment lines that hold a rule."""
    found: list[Banner] = []
    lines: list[re.Match[str]] = []
    for line in [*LINE.finditer(text), None]:
        own = line is not None and line[1] == "#" and not CELL.match(line.group().strip())
        if line is not None and own and (not lines or indentation_of(text, line.start()) == _indentation(lines)):
            lines.append(line)
            continue
        rules = [rule for each in lines if (rule := DRAWN.search(each.group())) is not None]
        if rules:
            light = all(rule[1] in LIGHT for rule in rules)
            found.append(Banner(lines[0].start(), lines[-1].end(), (len(rules) > 1, not light)))
        lines = [line] if line is not None and own else []
    return found


def _indentation(lines: Sequence[re.Match[str]]) -> str:
    return indentation_of(lines[0].string, lines[0].start())


def _end_of(text: str, banner: Banner, banners: Mapping[int, Banner]) -> int:
    """Where the section of a banner ends."""
    depth = len(indentation_of(text, banner.start).expandtabs())
    for start in _lines(text, banner.end):
        other, indent = banners.get(start), indentation_of(text, start)
        code = text[start + len(indent) : line_end(text, start)].strip()
        if not code:
            continue
        own = len(indent.expandtabs())
        ends = own < depth or (own == depth and other is not None and other.rank >= banner.rank)
        if ends or CELL.match(code):
            return start
    return len(text)


def _lines(text: str, start: int) -> Iterator[int]:
    while start < len(text):
        yield start
        start = line_end(text, start)
