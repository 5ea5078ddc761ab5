"""The change as hunks of a unified diff, each with the rules and reasons of the edits in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..text.edit import Edit

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)
class Hunk:
    """One hunk: its `@@` header, its lines (` `, `-` or `+`, then the text without line end), and why they changed."""

    header: str
    lines: tuple[str, ...]
    why: tuple[tuple[str, str], ...]


def diff_hunks(before: str, after: str, edits: Sequence[Edit] = (), context: int = CONTEXT) -> list[Hunk]:
    """The hunks that turn `before` into `after`, in order; every edit's (rule, reason) stands in the hunk it made."""
    if before == after:
        return []
    old, new = LINE.findall(before), LINE.findall(after)
    # autojunk would treat frequent lines, such as blank ones, as noise and find longer diffs in files over 200 lines.
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context))
    starts = [group[0][1] for group in groups]
    why: list[list[tuple[str, str]]] = [[] for _ in groups]
    for edit in sorted(edits, key=lambda edit: edit.start):
        # An edit belongs to the last hunk that begins at or before it: its own, or that of the lines it moved.
        reasons = why[max(0, bisect_right(starts, _line(before, edit)) - 1)]
        if (edit.rule, edit.reason) not in reasons:
            reasons.append((edit.rule, edit.reason))
    return [_hunk(group, old, new, reasons) for group, reasons in zip(groups, why, strict=True)]


def unified(before: str, after: str, source: str, output: str, edits: Sequence[Edit] = ()) -> str:
    """The whole diff as text; a line `# rule: reason` heads what an edit changed. Empty when nothing did."""
    lines: list[str] = []
    for hunk in diff_hunks(before, after, edits):
        lines += [hunk.header, *(f"# {rule}: {reason}" for rule, reason in hunk.why), *hunk.lines]
    return "\n".join([f"--- {source}", f"+++ {output}", *lines, ""]) if lines else ""


def _line(text: str, edit: Edit) -> int:
    """The line, from 0, at which an edit's own text begins (its leading line breaks belong to the line before)."""
    replaced = text[edit.start : edit.end]
    start = edit.start + len(replaced) - len(replaced.lstrip("\r\n")) if replaced.strip() else edit.start
    return len(LINE.findall(text[:start])) - (0 if start == 0 or text[start - 1] in "\r\n" else 1)


def _hunk(
    group: list[tuple[str, int, int, int, int]], old: list[str], new: list[str], why: list[tuple[str, str]]
) -> Hunk:
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in group:
        if tag == "equal":
            lines += _marked(" ", old[i1:i2])
            continue
        lines += [*_marked("-", old[i1:i2]), *_marked("+", new[j1:j2])]
    first, last = group[0], group[-1]
    header = f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
    return Hunk(header, tuple(lines), tuple(why))


def _marked(mark: str, lines: list[str]) -> list[str]:
    marked: list[str] = []
    for line in lines:
        marked.append(mark + line.rstrip("\r\n"))
        if not line.endswith(("\n", "\r")):
            marked.append(NO_NEWLINE)
    return marked


def _range(start: int, stop: int) -> str:
    """A unified diff's range: from 1; the line before when it is empty; the length left out when it is 1."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
