"""Settling: what is owed of each keyword of the source is compared with what was written.

A keyword whose value an edit carries has its line in the port. One of an object that the port keeps has its own, and
those that read the object: `rt.training_config(args, batches)` takes what that function declares
(`porter.runtime.settings.consumed`). A line that a rule leaves as it stands has itself. What has no line isn't in the
port: a person is asked, unless it says None or False and that is the default.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import libcst as cst

from ...recipe import CARRIED, Field, Place, Receipt
from ...runtime.settings.consumed import CONSUMED
from ...source.merged import Part
from ...text.edit import Edit
from ...text.marks import Key
from ..receipts.marking import STAYS, reason_unread
from ..script.porting import Porting
from ..script.sites import Argument, shown
from ..settling.kept_branch import OTHER_BRANCH
from .per_file import own_edits, parts_of

NOTHING = "nothing of this script is ported; the findings say why"
LOST = "no line of the port has its value"
DEFAULT = "this is the default, which changes nothing"
NAMES = tuple(item.name for item in fields(Field))


def refuse_unsettled(porting: Porting, edits: Sequence[Edit]) -> None:
    """What a rule promised and nobody is known to have written is a person's: a warning at its place in the source."""
    written = Written(porting, edits)
    refused = {finding.line for finding in porting.findings if finding.severity == "error"}
    for row in porting.fields:
        if row.fate not in CARRIED or written.lines_of(row):
            continue
        if (reason := reason_unread(porting, row, _file_of(row))) is not None:
            porting.fate(replace(row, fate="dropped", target="", reason=reason))
            continue
        if written.is_in_other_branch(row):
            porting.fate(replace(row, fate="dropped", target="", reason="the branch that it stands in doesn't run"))
            continue
        if not _file_of(row) and (row.line, row.column) in porting.marks.off:
            porting.fate(replace(row, fate="dropped", target="", reason=DEFAULT))
            continue
        if written.site_lines(row) & refused:  # a finding says it
            porting.fate(replace(row, fate="manual", target="", reason="its call is left to a person"))
            continue
        message = f"{row.source}={shown(row.value)}: {LOST} that tpu-port can name."
        fix = "Look whether the port does what it says; a script that shows this helps tpu-port, please report it."
        porting.find(row.rule, "warning", message, fix, *_place(porting, row))
        porting.fate(replace(row, fate="manual", target="", reason=LOST))


def receipts(porting: Porting, edits: Sequence[Edit], *, refused: bool) -> tuple[Receipt, ...]:
    """The rows of the report, settled: those of what the port has with their lines. `refused`: nothing is ported."""
    written = Written(porting, edits)
    found = []
    for row in porting.fields:
        owed = row.fate in CARRIED
        if owed and refused and row.target != STAYS:
            row = replace(row, fate="manual", target="", reason=NOTHING)
        places = written.places_of(row) if row.fate in CARRIED else ()
        found.append(Receipt(**{name: getattr(row, name) for name in NAMES}, places=places))
    return tuple(found)


def _place(porting: Porting, row: Field) -> tuple[int, int]:
    if _file_of(row) and porting.trainer is not None:
        return porting.trainer.line, porting.trainer.column
    return row.line, row.column


def _file_of(row: Field) -> str:
    """The launch file that a row is of (`fsdp.yaml: num_processes`); empty for a keyword of the source."""
    return row.source.rpartition(": ")[0]


@dataclass(frozen=True)
class Line:
    """A line of a file's port: the file's number, and the line's (from 1)."""

    file: int
    line: int


@dataclass(frozen=True)
class Written:
    """What the edits of a port carry, and where in its files that is."""

    porting: Porting
    edits: Sequence[Edit]

    def lines_of(self, row: Field) -> list[Line]:
        """The port's lines that have a keyword's value, its own first; none where nothing carries it."""
        place = (row.line, row.column)
        file = _file_of(row)
        found = list(self._carried.get((file, *place), ())) if row.line else []
        found += self._lines_of_row(row)
        own = self._own_line(*place) if not file and row.line else None
        if row.target == STAYS or ("stays", *place) in self.porting.marks.stays:
            found += [own] if own is not None else []
        readers = [
            line
            for text, name in self.porting.marks.objects.get((file, *place), ())
            for line in self._readers(text, name)
        ]
        if ("moved", *place) in self.porting.marks.stays:  # with its call, which gives the object its name
            found += readers or self._given(self.porting.arguments_object)
        elif readers:
            found += [own, *readers] if own is not None else [] if not file else readers
        return list(dict.fromkeys(found))

    def _lines_of_row(self, row: Field) -> list[Line]:
        """The lines that a writer named for a whole row: of several trainers with such a row each has its own."""
        found = self._carried.get(("row", row.source), [])
        rows = self._rows.get(row.source, [])
        if len(found) == len(rows) > 1:
            return [found[place] for place, each in enumerate(rows) if each == (row.line, row.column)]
        return found

    @cached_property
    def _rows(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in self.porting.fields:
            found[row.source].append((row.line, row.column))
        return {source: sorted(places) for source, places in found.items()}

    def is_in_other_branch(self, row: Field) -> bool:
        """Whether a keyword stands in a branch that the port doesn't have, the other being the one that runs."""
        if _file_of(row) or not row.line:
            return False
        number = self._part_at(row.line)
        part = self._parts[number]
        start = part.module.offset(row.line - part.line, row.column)
        return any(e.part == OTHER_BRANCH and e.start <= start < e.end for e in self._own_edits[number])

    def site_lines(self, row: Field) -> set[int]:
        """The line of a keyword of the source and those of the calls that it is given to."""
        held = [site for site in self.porting.sites for each in site.arguments if _is_at(each, row)]
        return {row.line, *(site.line for site in held)}

    def places_of(self, row: Field) -> tuple[Place, ...]:
        """The same as numbers and texts."""
        here = self._part_at(row.line) if not _file_of(row) else len(self._parts) - 1
        return tuple(
            Place(
                found.line,
                self._texts[found.file][found.line - 1].strip(),
                "" if found.file == here else self._path(found),
            )
            for found in self.lines_of(row)
        )

    def _path(self, line: Line) -> str:
        return self._parts[line.file].module.path

    def _readers(self, text: str, name: str) -> list[Line]:
        """The lines that read an attribute of an object: by its name, or by a helper that declares it."""
        found = list(self._carried.get(("read", f"{text}.{name}"), ()))
        for helper, names in CONSUMED.items():
            if name in names:
                found += self._carried.get(("given", text, helper), ())
        return found

    def _given(self, text: str) -> list[Line]:
        """The lines where helpers are given an object."""
        return [line for helper in CONSUMED for line in self._carried.get(("given", text, helper), ())]

    @cached_property
    def _parts(self) -> list[Part]:
        return parts_of(self.porting.module)

    @cached_property
    def _own_edits(self) -> list[list[Edit]]:
        return [sorted(own_edits(part, self.edits), key=lambda e: (e.start, e.end)) for part in self._parts]

    @cached_property
    def _starts(self) -> list[list[int]]:
        return [[edit.start for edit in edits] for edits in self._own_edits]

    @cached_property
    def _shifts(self) -> list[list[int]]:
        """For each file, how many lines longer its port is behind each of its edits."""
        found = []
        for part, edits in zip(self._parts, self._own_edits, strict=True):
            text, total, shifts = part.module.text, 0, []
            for edit in edits:
                total += _line_ends(edit.new) - _line_ends(text[edit.start : edit.end])
                shifts.append(total)
            found.append(shifts)
        return found

    @cached_property
    def _carried(self) -> dict[Key, list[Line]]:
        found: dict[Key, list[Line]] = defaultdict(list)
        for number, edits in enumerate(self._own_edits):
            for index, edit in enumerate(edits):
                first = self._line(number, index, edit.start)
                for line, key in edit.carries:
                    found[key].append(Line(number, first + min(line, _line_ends(edit.new))))
        return found

    @cached_property
    def _texts(self) -> list[list[str]]:
        from ...text.edits import apply_edits

        texts = [
            apply_edits(part.module.text, edits) if edits else part.module.as_written
            for part, edits in zip(self._parts, self._own_edits, strict=True)
        ]
        return [text.replace("\r\n", "\n").replace("\r", "\n").split("\n") for text in texts]

    def _line(self, number: int, index: int, start: int) -> int:
        """The line of the port at an offset of a file that the edits before `index` move."""
        line = self._parts[number].module.line_column(start)[0]
        return line + (self._shifts[number][index - 1] if index else 0)

    def _part_at(self, line: int) -> int:
        return max(bisect_right([part.line for part in self._parts], max(line, 1) - 1) - 1, 0)

    def _own_line(self, line: int, column: int) -> Line | None:
        """Where the port has the code at a place of the source, as it was or with its names rewritten."""
        number = self._part_at(line)
        part, edits = self._parts[number], self._own_edits[number]
        start = part.module.offset(line - part.line, column)
        behind = bisect_right(self._starts[number], start)
        last = edits[behind - 1] if behind else None
        if last is not None and start < last.end and not self._is_within(last, line, column, start):
            return None
        if last is not None and start < last.end:
            return Line(number, self._line(number, behind - 1, last.start))
        return Line(number, self._line(number, behind, start))

    def _is_within(self, edit: Edit, line: int, column: int, start: int) -> bool:
        """Whether an edit is no more than (a part of) the argument at a place."""
        argument = self._arguments.get((line, column))
        if not edit.new.strip():
            return False
        if argument is None:  # of a call that a rule keeps by itself: a name in its value is another one
            return edit.start == start and edit.new.replace(".", "").isidentifier()
        if argument.node is None:
            return False
        begin, end = self.porting.module.span(self._whole(argument.node))
        return edit.start >= min(start, begin) and edit.end - edit.start <= end - begin

    def _whole(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """All of a value of which `node` is the way that is taken: `node if torch.cuda.is_available() else False`."""
        parent = self.porting.module.parents.get(node)
        return self._whole(parent) if isinstance(parent, cst.IfExp) and node is not parent.test else node

    @cached_property
    def _arguments(self) -> dict[tuple[int, int], Argument]:
        return {
            (argument.line, argument.column): argument for site in self.porting.sites for argument in site.arguments
        }


def _is_at(argument: Argument, row: Field) -> bool:
    return (argument.line, argument.column) == (row.line, row.column)


def _line_ends(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")
