"""The source's comments in the port: each goes where the value went of which it speaks.

A comment behind a keyword stands behind its new place, a line above it above that; where one line is made of several
keywords, each comment names its own. The heading of a section stands above the first of its keywords that the port
has. What is said of a keyword that has no place in the port goes with it, and every comment stands once, where its
value is first written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...engine.receipts.marking import mark, mark_of
from ...engine.script.fill_from_tables import plain_version, table_of
from ...engine.script.porting import Porting
from ...engine.script.sites import Argument, indentation
from ...engine.script.training import Training
from ...recipe import Value
from ...releases.history import LIBRARIES, history
from ...source.remarks import Heading
from ...text.edits import line_start
from ...text.layout import Arg, Call, commented

# The first of the characters that mark the places of a section's keywords while the port is written.
MARK = 0xF0000
MARKS = re.compile("[\U000f0000-\U000ffffd]")


def placed(porting: Porting, place: str, name: str = "", note: str = "") -> Arg:
    """The value of a place as an argument, with what the source says of it.

    Where it says nothing: `note`, or whose default it is.
    """
    arg = remarked(porting, Arg(porting.text(place), name), place)
    note = note or ("" if porting.given(place) else f"# {default_of(porting, place)}")
    return arg if arg.comment else replace(arg, comment=note)


def handed(porting: Porting, argument: Argument | None, name: str = "") -> Arg:
    """An argument of the source's call as one of the port's, with what the source says of it; None for none."""
    return said_by(porting, [argument], Arg(argument.text if argument is not None else "None", name))


def remarked(porting: Porting, arg: Arg, *places: str) -> Arg:
    """An argument made of the values of some places, with what the source says of them."""
    return _said_by(porting, [argument_of(porting, place) for place in places], arg, mark(porting, *places))


def said_by(porting: Porting, arguments: Iterable[Argument | None], arg: Arg) -> Arg:
    """An argument made of some of the source's, with what it says of those."""
    arguments = list(arguments)
    return _said_by(porting, arguments, arg, mark_of(porting, arguments))


def _said_by(porting: Porting, arguments: Iterable[Argument | None], arg: Arg, receipts: str) -> Arg:
    marks, above, behind = _taken(porting, arguments)
    arg = marked(arg, receipts + marks)
    value = arg.value
    if len(behind) > 1:
        return replace(arg, value=value, above=_lines(above, behind))
    comments = [comment for _, comment in behind]
    if arg.comment:
        return replace(arg, value=value, above=(*above, *comments))
    return replace(arg, value=value, above=tuple(above), comment="".join(comments))


def unwritten(porting: Porting, defaults: Mapping[str, tuple[str, Any]]) -> str:
    """Marks of the values that a call takes anyway when they are left out: they stand where the call does."""
    silent = []
    for place, (_, default) in defaults.items():
        value = porting.value(place)
        if value is not None and is_default(value, default):
            silent.append(place)
    return mark(porting, *silent)


def is_default(value: Value, default: Any) -> bool:
    """Whether a value is what the runtime takes anyway, numbers by what they are worth."""
    if not value.known:
        return False
    literal = value.literal
    if literal in ("auto",) and default is None:  # pad_to_multiple_of: none but on Neuron
        return True
    if default is None:
        return literal is None or (literal == 0 and not isinstance(literal, bool))
    if isinstance(default, bool) != isinstance(literal, bool):
        return False
    return bool(literal == default or literal == [default])


def marked(arg: Arg, marks: str) -> Arg:
    """An argument with marks in front of its value."""
    value = replace(arg.value, head=marks + arg.value.head) if isinstance(arg.value, Call) else marks + arg.value
    return replace(arg, value=value)


def remarked_line(porting: Porting, code: str, indent: str, *places: str, note: str = "") -> list[str]:
    """A statement made of the values of some places, with what the source says of them.

    A single comment stands behind a statement of one line that has room and no `note` of the port's own; others stand
    above it and name their keywords.
    """
    marks, above, behind = _taken(porting, [argument_of(porting, place) for place in places])
    comment = behind[0][1] if len(behind) == 1 and not note and "\n" not in code else ""
    if comment and not commented(code, comment, indent)[0]:
        lines, note = tuple(above), comment
    else:
        lines = _lines(above, behind)
    long, code = commented(code, note, indent)
    own = "".join(char for char in mark(porting, *places) if char not in code)  # but what a line of its own says
    first, *rest = [*lines, *long, own + code]
    return [marks + first, *rest]


def named_remarks(porting: Porting, *places: str) -> tuple[str, ...]:
    """Lines for above code that holds the values of many places, each naming the keyword that it is said of."""
    _, above, behind = _taken(porting, [argument_of(porting, place) for place in places])
    return _lines(above, behind)


def argument_of(porting: Training, place: str) -> Argument | None:
    """The keyword of the source that gives a place its value."""
    value = porting.value(place)
    origin = value.origin if value is not None else None
    if origin is None or not origin.line:
        return None
    asked = ("arguments", len(porting.sites))
    if asked not in porting.answers:
        arguments = [argument for site in porting.sites for argument in site.arguments]
        porting.answers[asked] = {(each.line, each.column): each for each in reversed(arguments)}
    found: Argument | None = porting.answers[asked].get((origin.line, origin.column))
    return found


def _taken(porting: Porting, arguments: Iterable[Argument | None]) -> tuple[str, list[str], list[tuple[str, str]]]:
    """The comments on some arguments that the port doesn't have yet.

    Marks for the sections that they stand in, lines for above, and (keyword, comment behind it).
    """
    marks = ""
    above: list[str] = []
    behind: list[tuple[str, str]] = []
    for argument in arguments:
        if argument is None or (place := (argument.line, argument.column)) in porting.remarked:
            continue
        porting.remarked.add(place)
        heading = argument.remark.heading
        if heading is not None and heading.is_section:
            marks += chr(MARK + len(porting.headings))
            porting.headings.append((heading, *place))
        elif heading is not None:
            above += heading.lines
        if argument.remark.behind:
            behind.append((argument.name, argument.remark.behind))
    return marks, above, behind


def _lines(above: Iterable[str], behind: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return (*above, *(f"# {name}: {comment.lstrip('#').strip()}" for name, comment in behind))


def place_headings(porting: Porting) -> None:
    """Put the heading of every section above the first of its keywords that is in the port, and take the marks out."""
    if not porting.headings:
        return
    headings = {_first(porting, heading): heading.lines for heading, _, _ in porting.headings}
    for index, edit in enumerate(porting.edits):
        if MARKS.search(edit.new) is None:
            continue
        before = porting.module.text[line_start(porting.module.text, edit.start) : edit.start]
        top, *lines = edit.new.split(porting.module.newline)
        own = [line for mark in MARKS.findall(top) for line in headings.get(mark, ())]
        parts = [_with_headings(line, headings) for line in lines]
        below = [line for part in parts for line in part]
        indent = indentation(porting.module.text, edit.start)
        above = "".join(f"{line}{porting.module.newline}{indent}" for line in own)
        starts = [len(own) + sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
        if before.strip():  # the edit begins inside its line: what stands above goes above that
            start = edit.start - len(before.lstrip())
            porting.edits.append(replace(edit, start=start, end=start, new=above))
            above, starts = "", [number - len(own) for number in starts]
        new = porting.module.newline.join([above + MARKS.sub("", top), *below])
        carries = tuple((starts[line], key) for line, key in edit.carries)
        porting.edits[index] = replace(edit, new=new, carries=carries)


def _first(porting: Porting, heading: Heading) -> str:
    """The mark at which a heading stands: in the paragraph of the section's first keyword the one that comes first."""
    own = {chr(MARK + index): place for index, (other, *place) in enumerate(porting.headings) if other is heading}
    found = [(own[mark], mark, edit.new) for edit in porting.edits for mark in MARKS.findall(edit.new) if mark in own]
    if not found:
        return ""
    _, mark, text = min(found)
    start, end = (
        text.rfind(blank := porting.module.newline * 2, 0, text.index(mark)),
        text.find(blank, text.index(mark)),
    )
    paragraph = text[max(start, 0) : end if end >= 0 else len(text)]
    return next(other for other in MARKS.findall(paragraph) if other in own)


def _with_headings(line: str, headings: Mapping[str, tuple[str, ...]]) -> list[str]:
    space = MARKS.sub("", line)[: len(line) - len(line.lstrip())]
    above = [f"{space}{comment}" for mark in MARKS.findall(line) for comment in headings.get(mark, ())]
    return [*above, MARKS.sub("", line)]


def default_of(porting: Training, place: str) -> str:
    """Whose default a value is, for a comment: `SFTConfig's default`."""
    value = porting.value(place)
    if note := porting.note(value):
        return note
    is_default = value is not None and value.kind == "default" and porting.loop is None
    origin = value.origin if value is not None and is_default else None
    name = origin.file.rsplit(".", 1)[-1] if origin is not None and origin.line == 0 else config_name(porting)
    if origin is not None and porting.trainer is not None and not _exists(porting, origin.file):
        name = porting.trainer.qualified.rsplit(".", 1)[-1]  # which took as keywords what became its config's
    possessive = f"{name}'" if name.endswith("s") else f"{name}'s"
    return f"{possessive} default"


def _exists(porting: Training, name: str) -> bool:
    """Whether the source's release has a class of a library."""
    library = name.partition(".")[0]
    version = plain_version(porting.versions.get(library, ""))
    return not version or library not in LIBRARIES or history().has(library, version, name)


def config_name(porting: Training) -> str:
    """The class whose defaults hold: the config's that the script makes, else the one that its trainer makes."""
    if porting.arguments is not None:
        return porting.arguments.qualified.rsplit(".", 1)[-1]
    if porting.loop is not None:
        return "torch"
    assert porting.trainer is not None
    return table_of(porting, porting.trainer).config.rsplit(".", 1)[-1]
