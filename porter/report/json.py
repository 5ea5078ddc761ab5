"""The report as one JSON object: what `--json` prints."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..port import Port
from ..recipe import Place, Receipt

TOOL = "tpu-port"
# The rule id of findings about the input itself, before any rule has looked at it.
INPUT = "TP000"
CELL = re.compile(r"# %% \[cell (\d+)\]")


def port_document(port: Port, output: Path | None) -> dict[str, Any]:
    """`{tool, version, source, output, status, trainer, target, fields, findings, edits}` of a port.

    In a notebook, every place has its `cell` (from 1), and its line counts in that cell. A field's `port_line` is the
    line of the port that has its value (in a notebook that of the cell `port_cell`), `port_text` its text, `port_file`
    the file it is in; `port_lines` are all of them: of a keyword that the port reads of an object, also where it does.
    Where modules of the script's project are written beside its port, `modules` has the same of each.
    """
    edits = [
        {
            "rule": edit.rule,
            "reason": port.masked(edit.reason),
            "line": edit.line,
            "column": edit.column,
            "before": port.masked(port.before[edit.start : edit.end]),
            "after": port.masked(edit.new),
        }
        for edit in port.edits
    ]
    written = [(module, output.parent / module.beside if output else None) for module in port.modules if module.beside]
    modules = {"modules": [port_document(module, place) for module, place in written]} if written else {}
    return _document(
        source=port.path,
        output=str(output) if output is not None else None,
        status=port.status,
        trainer=port.recipe.trainer,
        target=port.recipe.target,
        fields=[_placed(port, _with_lines(port, field)) for field in port.fields],
        findings=[_placed(port, asdict(finding)) for finding in port.findings],
        edits=[_placed(port, edit) for edit in edits],
        **modules,
    )


def _with_lines(port: Port, field: Receipt) -> dict[str, Any]:
    row = asdict(field)
    del row["places"]
    lines = [_line(port, place) for place in field.places]
    first = lines[0] if lines else {"line": None, "text": None, "file": None}
    return {**row, **{f"port_{name}": found for name, found in first.items()}, "port_lines": lines}


def _line(port: Port, place: Place) -> dict[str, Any]:
    found = {"line": place.line, "text": port.masked(place.text), "file": place.file or port.path}
    if port.notebook is None:
        return found
    cells = [(number, CELL.match(line)) for number, line in enumerate(port.after.split("\n")[: place.line], 1)]
    number, cell = next((number, int(cell[1])) for number, cell in reversed(cells) if cell is not None)
    cell -= sum(gone < cell for gone in port.notebook.emptied(port.edits))
    return {**found, "line": place.line - number, "cell": cell}


def _placed(port: Port, row: dict[str, Any]) -> dict[str, Any]:
    if port.notebook is None:
        return row
    cell, line = port.notebook.place(row["line"])
    return {**row, "cell": cell, "line": line}


def error_document(error: InputError) -> dict[str, Any]:
    """The same object for bad input: status "error" and one finding that says what is wrong."""
    finding = {
        "rule": INPUT,
        "severity": "error",
        "message": error.message,
        "fix": error.fix,
        "line": error.line,
        "column": error.column,
    }
    return _document(
        source=error.path or None,
        output=None,
        status="error",
        trainer=None,
        target=None,
        fields=[],
        findings=[finding],
        edits=[],
    )


def to_text(document: dict[str, Any]) -> str:
    """Indented JSON in ASCII: it survives every pipe."""
    return json.dumps(document, indent=2)


def _document(**parts: Any) -> dict[str, Any]:
    return {"tool": TOOL, "version": __version__, **parts}
