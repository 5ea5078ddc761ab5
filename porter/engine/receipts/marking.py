"""Marking what is written: of which keywords of the source the code is made, and what the port still reads of objects.

Whoever writes a value marks its code (`mark`); an edit keeps that as the line of its text. What nobody marked isn't in
the port, whatever a table promised of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import libcst as cst

from ...recipe import CARRIED, Field, Value
from ...runtime.facts.field_tables import FieldTable
from ...text.marks import Key
from ..script.porting import Porting
from ..script.sites import Argument, Site
from ..script.training import Training

STAYS = "stays as it is"  # where code goes that the port has as the source does


def mark(porting: Porting, *places: str) -> str:
    """What stands in front of code that is made of the values at some places of the Recipe."""
    keys: list[Key] = []
    for place in places:
        value = porting.value(place)
        keys += keys_of(porting, value) if value is not None else []
        keys += porting.marks.also.get(place, ())
    return _marks(porting, keys)


def mark_at(porting: Porting, line: int, column: int) -> str:
    """What stands in front of code that the row of the report at a place of the source is about."""
    return _marks(porting, [("", line, column)])


def also(porting: Training, place: str, file: str, line: int) -> None:
    """A setting of a launch file says what a place of the Recipe holds: its line in the port is that of the place."""
    key: Key = (file, line, 1)
    known = porting.marks.also.setdefault(place, [])
    if key not in known:
        known.append(key)
    value = porting.value(place)
    read = value.code.rpartition(".") if value is not None and value.kind == "expression" else ("", "", "")
    if porting.arguments_object and read[0] == porting.arguments_object:
        porting.marks.objects[key] = [(read[0], read[2])]


def about(porting: Training, row: Field, places: Iterable[str]) -> None:
    """A row of the report is about what some places of the Recipe hold; about none: its line stays as it is."""
    held = list(places)
    for place in held:
        porting.marks.also.setdefault(place, []).append(("", row.line, row.column))
    if not held:
        porting.marks.stays.add(("stays", row.line, row.column))


def unread(porting: Porting, reason: str, *places: str) -> None:
    """Keywords that the run doesn't read, whatever they hold: each is dropped, and why."""
    keys = set(keys_at(porting, *places))
    porting.fields = tuple(
        replace(row, fate="dropped", target="", reason=reason)
        if row.fate in CARRIED and not keys.isdisjoint(_row_keys(porting, row))
        else row
        for row in porting.fields
    )


def unread_unless(porting: Porting, reason: str, keys: Iterable[Key]) -> None:
    """Keywords that are dropped unless code for them is written, and why."""
    porting.marks.unread.update(dict.fromkeys(keys, reason))


def reason_unread(porting: Porting, row: Field, file: str) -> str | None:
    """Why a keyword of the source, or of a launch file, is dropped where no code for it is written; None: it isn't."""
    return next(
        (porting.marks.unread[key] for key in _row_keys(porting, row, file) if key in porting.marks.unread), None
    )


def _row_keys(porting: Porting, row: Field, file: str = "") -> list[Key]:
    """By what a row is known: its place, and the attribute that the port reads where it keeps the object."""
    place: Key = (file, row.line, row.column)
    return [place, *(("read", f"{text}.{name}") for text, name in porting.marks.objects.get(place, ()))]


def keys_at(porting: Porting, *places: str) -> list[Key]:
    """By what the rows of the report know the values that the source gives places of the Recipe."""
    values = [porting.value(place) for place in places]
    return [key for value in values if value is not None for key in keys_of(porting, value)]


def mark_of(porting: Porting, arguments: Iterable[Argument | None]) -> str:
    """What stands in front of code that is made of some arguments of the source."""
    return _marks(porting, [("", each.line, each.column) for each in arguments if each is not None])


def mark_keywords(porting: Porting, site: Site | None, *names: str) -> str:
    """What stands in front of code that does what some keywords of a call ask for, whether or not it says their value:
    the object of a config may be kept or spread."""
    return mark_of(porting, [site.argument(name) for name in names]) if site is not None else ""


def mark_target(porting: Porting, target: str) -> str:
    """What stands in front of the code that all rows with a `target` are about: a launch file's have no place."""
    rows = [row for row in porting.fields if row.target == target and row.line]
    return _marks(porting, [(row.source.rpartition(": ")[0], row.line, row.column) for row in rows])


def mark_row(porting: Porting, source: str) -> str:
    """What stands in front of code that a row of the report is about that is no keyword: `effective batch`."""
    return _marks(porting, [("row", source)])


def given(porting: Porting, helper: str, text: str) -> str:
    """An object that the port keeps as the argument of a helper of the runtime, which reads what it declares."""
    return _marks(porting, [("given", text, helper)]) + text


def keep_object(porting: Training, site: Site, text: str, table: FieldTable) -> None:
    """The port keeps the object of a call, as `text`: each keyword is read of it under the name that it has today."""
    for argument in site.arguments:
        row = table.row(argument.name)
        read = (text, row.name if row is not None else argument.name)
        known = porting.marks.objects.setdefault(("", argument.line, argument.column), [])
        if read not in known:
            known.append(read)


def marked_code(porting: Porting, node: cst.CSTNode | None, text: str) -> str:
    """Code of the source, `text`, that goes elsewhere as it stands: each keyword in it is marked where it is."""
    if node is None:
        return text
    module = porting.module
    start, end = module.span(node)
    arguments = [argument for site in porting.sites if start <= site.start < end for argument in site.arguments]
    offsets = {module.offset(argument.line, argument.column): argument for argument in arguments}
    inside = {offset - start: offsets[offset] for offset in sorted(offsets) if start <= offset < end}
    if module.text[start:end] != text:
        inside = _found_in(text, inside.values())
    for place in sorted(inside, reverse=True):
        text = text[:place] + mark_of(porting, [inside[place]]) + text[place:]
    return text


def _found_in(text: str, arguments: Iterable[Argument]) -> dict[int, Argument]:
    """Where keywords stand in code whose values were decided, `fp16=False`: each behind the one before it."""
    found: dict[int, Argument] = {}
    behind = 0
    for argument in arguments:
        place = re.compile(rf"(?<![\w.]){re.escape(argument.name)}[ \t]*=(?!=)").search(text, behind)
        if argument.name and place is not None:
            found[place.start()] = argument
            behind = place.end()
    return found


def stays(porting: Porting, arguments: Iterable[Argument]) -> None:
    """Arguments of the source that a call of the port has where they were."""
    porting.marks.stays.update(("stays", argument.line, argument.column) for argument in arguments)


def carry(porting: Porting, since: int, rows: Iterable[Field]) -> None:
    """What a rule promises of some keywords stands in what it wrote, the edits from `since` on: in the line that has
    the value, else in the first. Where it wrote nothing, its call stays as it is."""
    written = [index for index in range(since, len(porting.edits)) if not porting.edits[index].removes]
    known = {key for edit in porting.edits for _, key in edit.carries}
    for row in rows:
        key: Key = ("", row.line, row.column)
        if row.fate not in CARRIED or not row.line or key in known or ("row", row.source) in known:
            continue
        if not written:
            porting.marks.stays.add(("stays", row.line, row.column))
            continue
        lines = ((index, porting.edits[index].line_of(row.value)) for index in written)
        first = written[0], porting.edits[written[0]].line_of("")
        index, number = next((found for found in lines if found[1] is not None), first)
        edit = porting.edits[index]
        porting.edits[index] = replace(edit, carries=(*edit.carries, (number or 0, key)))


def keys_of(porting: Porting, value: Value) -> list[Key]:
    """By what the rows of the report know a value: where the source gives it, or the attribute that it is read from."""
    origin = value.origin
    if origin is None or not origin.line:
        return [("read", value.code)] if value.kind == "expression" else []
    place = (origin.line, origin.column)
    file = Path(origin.file)
    # What a launch file says has rows with the file's name; what has no file is a library's, at a place of the script.
    own = file == Path(porting.module.path) or not file.suffix
    return [("", *place), (file.name, *place)] if own else [(file.name, *place)]


def _marks(porting: Porting, keys: Iterable[Key]) -> str:
    return "".join(porting.marks.mark(key, porting.module.text) for key in dict.fromkeys(keys))
