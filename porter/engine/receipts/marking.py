"""Marking what is written: of which keywords of the source the code is made, and what the port still reads of objects.

Whoever writes a value marks its code (`mark`); an edit keeps that as the line of its text. What nobody marked isn't in
the port, whatever a table promised of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...recipe import Value
from ...text.layout import Arg
from ...text.marks import Key
from ..script.porting import Porting
from ..script.sites import Argument, Site


def mark(porting: Porting, *places: str) -> str:
    """What stands in front of code that is made of the values at some places of the Recipe."""
    values = [porting.value(place) for place in places]
    return _marks(porting, [key for value in values if value is not None for key in keys_of(porting, value)])


def mark_of(porting: Porting, arguments: Iterable[Argument | None]) -> str:
    """What stands in front of code that is made of some arguments of the source."""
    return _marks(porting, [("", each.line, each.column) for each in arguments if each is not None])


def mark_row(porting: Porting, source: str) -> str:
    """What stands in front of code that a row of the report is about that is no keyword: `effective batch`."""
    return _marks(porting, [("row", source)])


def given(porting: Porting, helper: str, text: str, name: str = "") -> Arg:
    """An object that the port keeps as the argument of a helper of the runtime, which reads what it declares."""
    return Arg(_marks(porting, [("given", text, helper)]) + text, name)


def keep_object(porting: Porting, site: Site, text: str, names: dict[str, str]) -> None:
    """The port keeps the object of a call, as `text`: each keyword is read of it under the name that it has today."""
    for argument in site.arguments:
        read = (text, names.get(argument.name, argument.name))
        known = porting.marks.objects.setdefault(("", argument.line, argument.column), [])
        if read not in known:
            known.append(read)


def keys_of(porting: Porting, value: Value) -> list[Key]:
    """By what the rows of the report know a value: where the source gives it, or the attribute that it is read from."""
    origin = value.origin
    if origin is None or not origin.line:
        return [("read", value.code)] if value.kind == "expression" else []
    place = (origin.line, origin.column)
    file = Path(origin.file)
    own = file.suffix in ("", ".py", ".ipynb")  # but a launch file's, of which rows say the name
    return [("", *place), (file.name, *place)] if own else [(file.name, *place)]


def _marks(porting: Porting, keys: Iterable[Key]) -> str:
    return "".join(porting.marks.mark(key, porting.module.text) for key in dict.fromkeys(keys))
