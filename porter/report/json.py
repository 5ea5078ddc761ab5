"""The report as one JSON object: what `--json` prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..port import Port

TOOL = "tpu-port"
# The rule id of findings about the input itself, before any rule has looked at it.
INPUT = "TP000"


def port_document(port: Port, output: Path | None) -> dict[str, Any]:
    """`{tool, version, source, output, status, trainer, target, fields, findings, edits}` of a port.

    In a notebook, every place has its `cell` (from 1), and its line counts in that cell.
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
    return _document(
        source=port.path,
        output=str(output) if output is not None else None,
        status=port.status,
        trainer=port.recipe.trainer,
        target=port.recipe.target,
        fields=[_placed(port, asdict(field)) for field in port.fields],
        findings=[_placed(port, asdict(finding)) for finding in port.findings],
        edits=[_placed(port, edit) for edit in edits],
    )


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
