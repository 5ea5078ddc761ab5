"""The report of a folder: each file that changed as if it came alone, then one line a file and the sums."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..front.tree import TreePort
from .json import TOOL, error_document, port_document
from .terminal import STATUSES, show, show_port

ORDER = ("error", "unsupported", "partial", "ported", "unchanged")


def show_tree(result: TreePort, output: Path | None, written: int, out: Console) -> None:
    """Print the reports of the files that changed or can't be ported, then the table of all scripts."""
    for path, port in sorted(result.ports.items()):
        if port.status != "unchanged" or port.after != port.before:
            show_port(port, output / path if output is not None else None, (), out)
            out.print()
    table = Table(show_edge=False, pad_edge=False, box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for path, port in sorted(result.ports.items()):
        table.add_row(Text(port.status, style=STATUSES.get(port.status, "bold")), Text(str(path)))
    for path in sorted(result.errors):
        if result.errors[path].fix:
            table.add_row(Text("error", style="bold red"), Text(str(path)))
    if table.row_count:
        show(table, out)
    show(Text(summary(result), style="bold"), out)
    if output is not None:
        out.out(f"Wrote {written} files to {output}")


def summary(result: TreePort) -> str:
    """`14 files: 2 ported, 1 partial; 11 stay as they are; 1 can't be read`."""
    counts = Counter[str](port.status for port in result.ports.values() if port.status != "unchanged")
    said = ", ".join(f"{counts[status]} {status}" for status in ORDER[::-1] if counts[status])
    errors = [path for path, error in result.errors.items() if error.fix]
    touched = sum(counts.values()) + len(errors)
    parts = [said or "no training script that tpu-port knows", f"{max(0, len(result.files) - touched)} as they are"]
    if errors:
        parts.append(f"{len(errors)} not read")
    return f"{len(result.files)} files: {'; '.join(parts)}"


def circle_lines(result: TreePort) -> list[str]:
    """One line for each circle of imports."""
    lines = []
    for circle in result.circles:
        names = ", which imports ".join(str(path) for path in (*circle[1:], circle[0]))
        lines.append(f"{circle[0]}: imports {names}: a circle, in which names are followed once")
    return lines


def tree_document(result: TreePort, output: Path | None) -> dict[str, Any]:
    """`{tool, version, source, output, status, files, errors, notes, unchanged}`: `files` as each alone would print."""
    ports = {path: port for path, port in sorted(result.ports.items()) if port.status != "unchanged"}
    found = {port.status for port in ports.values()} | ({"error"} if result.code == 2 else set())
    errors = {path: error for path, error in sorted(result.errors.items()) if error.fix}
    notes = [str(error) for error in result.errors.values() if not error.fix]
    return {
        "tool": TOOL,
        "version": __version__,
        "source": str(result.root),
        "output": str(output) if output is not None else None,
        "status": next((status for status in ORDER if status in found), "unchanged"),
        "files": [port_document(port, output / path if output is not None else None) for path, port in ports.items()],
        "errors": [error_document(error) for error in errors.values()],
        "notes": [*notes, *circle_lines(result)],
        "unchanged": [str(path) for path in result.files if path not in ports and path not in errors],
    }
