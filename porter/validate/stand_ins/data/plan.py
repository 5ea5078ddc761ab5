"""What is made up for which read, decided in the source's process and kept in the work folder for the port's."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from ...observing.callers import of_user
from ...observing.remedies import SHORT_ROWS, said_of
from ...observing.settings import Settings
from .columns import Found, Read, find_reads, longest_wanted, rows_wanted
from .known import known_dataset
from .rows import OVER, made_up_rows
from .shapes import Kind, kind_by_name

DOCUMENT = "<document>"  # among the columns that running asked for: the form of JSON documents
LISTS = "<lists>"  # likewise: columns that are read are lists, as before datasets 4
KEPT = "data.json"
COMMON = ("r", "rb", "rt", "utf-8", "utf8", "json", "csv", "parquet", "text", "train", "x", "default", "main")


class DataPlan:
    """Columns, kinds and number of rows of each thing that is made up, by what the script calls it.

    The source's process decides and writes `data.json`; the port's process reads it and changes nothing.
    """

    def __init__(self, settings: Settings, side: str, arguments: list[str]) -> None:
        self.settings, self.side, self.arguments = settings, side, arguments
        self.file = Path(settings.work) / KEPT
        self.writes = side == "source" or not self.file.exists()
        self.entries: dict[str, dict[str, Any]] = {}
        if not self.writes:
            self.entries = json.loads(self.file.read_text(encoding="utf-8"))

    @functools.cached_property
    def found(self) -> Found:
        return find_reads(list(self.settings.sources), self.arguments)

    @functools.cached_property
    def limit(self) -> int | None:
        """The number of tokens at which the script cuts rows; None where it ends on a row that is cut."""
        return None if self.settings.remedy == SHORT_ROWS else self._cut_at

    @functools.cached_property
    def _cut_at(self) -> int | None:
        return longest_wanted(list(self.settings.sources))

    @property
    def limit_note(self) -> str | None:
        """What to say of a limit that no made-up row exceeds."""
        if self.settings.remedy == SHORT_ROWS:
            return said_of(SHORT_ROWS, self.settings.ended_with, self._cut_at)
        if self.limit is None or self.limit <= OVER:
            return None
        return f"no made-up row is longer than the script's limit of {self.limit} tokens: cutting was not compared"

    def read_at(self, frame: FrameType | None) -> Read | None:
        """The read of the script's text that is running in `frame` or its callers."""
        for place, line in self._places(frame):
            for read in self.found.reads:
                if read.place == place and read.first <= line <= read.last:
                    return read
        return None

    def read_of(self, name: str) -> Read | None:
        """The read of the script's text that is given `name`."""
        return next((read for read in self.found.reads if name in read.names), None)

    def _places(self, frame: FrameType | None) -> Iterator[tuple[int, int]]:
        while frame is not None:
            if of_user(frame.f_code.co_filename):
                place = self._place(frame.f_code.co_filename)
                if place is not None:
                    yield place, frame.f_lineno
            frame = frame.f_back

    @functools.lru_cache  # noqa: B019 - one object a process
    def _place(self, file: str) -> int | None:
        try:
            text = Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        return self.settings.sources.index(text) if text in self.settings.sources else None

    def entry(self, name: str, read: Read | None) -> dict[str, Any]:
        """How `name` is made up: `columns`, `count`, `limit`, `splits`, `form` and `document`."""
        if name in self.entries:
            return self.entries[name]
        if not self.writes:
            return self._nearest(name)
        columns: dict[str, Kind] = {}
        names = set(read.names) - set(COMMON) if read is not None else set()
        for other in self.found.reads:
            # The same file may be read in two places, each of which uses other columns.
            if other is read or (read is not None and other.kind == read.kind and names & set(other.names)):
                columns |= other.columns
        splits: tuple[str, ...] = ()
        table = next((row for part in name.split("|") if (row := known_dataset(part)) is not None), None)
        if table is not None:
            columns, splits = {**columns, **table[0]}, table[1]
        if not columns and (read is None or read.document is None):
            columns = dict(self.found.columns)
        # A prompt that is no plain text, a known dataset's, ends in its own way.
        added = list(self._asked().items())
        columns |= {name: kind for name, kind in added if kind != "ended" or columns.get(name, "text") == "text"}
        count = rows_wanted(list(self.settings.sources), self.settings.steps * 8)
        made = {"columns": columns, "count": count, "seed": 0, "limit": self.limit, "splits": list(splits)}
        if read is not None and read.kind == "file":
            made |= {"form": read.form, "document": self._repaired(read.document, columns)}
        self.entries[name] = made
        self.save()
        return made

    def _asked(self) -> dict[str, Kind]:
        """Columns that running asked for."""
        return {name: kind for name, kind in self.settings.columns.items() if name not in (DOCUMENT, LISTS)}

    def _repaired(self, document: Kind | None, columns: dict[str, Kind]) -> Kind | None:
        """The JSON document with the fields that running asked for, or of the form that it asked for."""
        asked = self._asked()
        form = self.settings.columns.get(DOCUMENT)
        rows = {"list": {"fields": columns}}
        if form == "list":
            return None
        if form == "mapping":
            return {"mapping": document["list"] if document and "list" in document else rows["list"]}
        if form is not None and "fields" in form:
            return {"fields": form["fields"]}
        if form is not None:
            return {"fields": dict.fromkeys(form["under"], rows)}
        if isinstance(document, dict) and "fields" in document:
            return {"fields": document["fields"] | asked}
        return document

    def _nearest(self, name: str) -> dict[str, Any]:
        """What the source made up under the name that is most alike: a port may name its data in other words."""
        first = [made for other, made in self.entries.items() if other.split("|")[0] == name.split("|")[0]]
        same = [made for other, made in self.entries.items() if Path(other).name == Path(name).name]
        for made in (*first, *same, *(list(self.entries.values()) if len(self.entries) == 1 else [])):
            return made
        count = rows_wanted(list(self.settings.sources), self.settings.steps * 8)
        return {"columns": dict(self.found.columns), "count": count, "seed": 0, "limit": self.limit, "splits": []}

    def add_column(self, entry: dict[str, Any], name: str, kind: Kind | None = None) -> Kind:
        """Column `name`, which running asked for, belongs to `entry` from now on; its kind."""
        if kind is None:
            kind = self.found.columns.get(name) or kind_by_name(name)
        entry["columns"][name] = kind
        if self.writes:
            self.save()
        return kind

    def save(self) -> None:
        """Write what was decided, whole or not at all: several processes may do so at once."""
        if self.side != "source":
            return
        new = self.file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(self.entries, indent=1), encoding="utf-8")
        new.replace(self.file)


def rows_of(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an entry."""
    return made_up_rows(entry["columns"], entry["count"], entry["seed"], entry["limit"])


def users_frame(through: tuple[str, ...] = (), ours: tuple[str, ...] = ("porter.",)) -> FrameType | None:
    """The frame of the user's code that called us directly or through the modules `through`, None for a library.

    `ours` are modules of this package that hand on what the user calls.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if of_user(frame.f_code.co_filename):
            return frame
        if not module.startswith((*ours, *through)):
            return None
        frame = frame.f_back
    return None
