"""A comparison of two logs on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...compare.verdict import SAME, UNTOLD, Comparison
from ..terminal import show
from ..verdict import COLOURS

EXACT = "exact"


def show_comparison(found: Comparison, out: Console) -> None:
    """The checks in their order, what can't be told, and the verdict."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("verdict", "found", "limit", "what was compared"):
        table.add_column(title, overflow="fold", no_wrap=title != "what was compared")
    for check in found.checks:
        what = Text(check.name, style="bold").append(f"\n{check.detail}" if check.detail else "", style="not bold dim")
        limit = "" if check.status == "skipped" else number(check.tolerance) or EXACT
        table.add_row(Text(check.status, style=COLOURS[check.status]), number(check.measured), limit, what)
    show(table, out)
    out.print()
    show(Text(f"GPU: {found.gpu} ({found.kinds[0]})"), out)
    show(Text(f"TPU: {found.tpu} ({found.kinds[1]})"), out)
    show(Text(f"envelope: {found.envelope.source}" if found.envelope else "envelope: none was measured"), out)
    for title, lines in (("noted", found.notes), ("can't be told", found.untold)):
        for line in lines:
            show(Text(f"{title}: {line}", style="dim" if title == "noted" else ""), out)
    out.print()
    first = found.first
    if first is not None and first.cause:
        show(Text(f"Likely cause: {first.cause}", style="red"), out)
    colour = {SAME: "bold green", UNTOLD: "bold yellow"}.get(found.word, "bold red")
    show(Text(found.line, style=colour), out)


def number(value: float | None) -> str:
    """A measured number, nothing for none."""
    return "" if value is None else f"{value:.2g}"
