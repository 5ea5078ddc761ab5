"""Cells that ended with an error in the run that a notebook was saved with, as their outputs show it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .notebook import Cell, Notebook

STOPPED = frozenset({"KeyboardInterrupt"})  # by its author
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OF_CELL = re.compile(r"(?:Cell In ?\[|<ipython-input-|/\S*/ipykernel_|Input In \[)")  # the head of a cell's own frame
ARROW = re.compile(r"(?m)^-+> ?(\d+)(?: |$)")
LONGEST = 120


@dataclass(frozen=True)
class Ended:
    """`line` is the one of the cell (from 1) at which it ended, 1 where the output doesn't say; `said` the error."""

    cell: Cell
    line: int
    error: str
    said: str


def ended_cells(notebook: Notebook) -> Iterator[Ended]:
    """The cells whose last run ended with an error; none that ran again to its end in a copy further below."""
    try:
        items = json.loads(notebook.raw.removeprefix("\ufeff"))["cells"]
    except (ValueError, KeyError, TypeError):
        return
    for cell in notebook.cells:
        found = next(_errors(items[cell.number - 1]), None)
        if found is None or str(found.get("ename")) in STOPPED:
            continue
        count = items[cell.number - 1].get("execution_count") or 0
        copies = [items[other.number - 1] for other in notebook.cells if other.source.strip() == cell.source.strip()]
        if any((each.get("execution_count") or 0) > count and next(_errors(each), None) is None for each in copies):
            continue
        said = next(iter(str(found.get("evalue") or "").strip().splitlines()), "").rstrip()
        said = f"{said[:LONGEST].rstrip()}…" if len(said) > LONGEST else said
        yield Ended(cell, _line(found.get("traceback")), str(found.get("ename") or "an error"), said)


def _errors(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    outputs = item.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and output.get("output_type") == "error":
            yield output


def _line(traceback: object) -> int:
    """The line of the cell that a traceback's first frame of a cell points at."""
    for entry in traceback if isinstance(traceback, list) else ():
        frame = COLOURS.sub("", str(entry))
        if (head := OF_CELL.search(frame)) is not None and (arrow := ARROW.search(frame, head.end())) is not None:
            return int(arrow[1])
    return 1
