"""The verdict of a validation on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..validate.verdict import Verdict

COLOURS = {"equal": "green", "differs": "bold red", "skipped": "dim"}


def show_verdict(verdict: Verdict, out: Console) -> None:
    """Print what was compared in its order, the first divergence and its cause, and on what the two scripts ran."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title, justify in (("compared", "left"), ("", "left"), ("largest difference", "right"), ("tolerance", "right")):
        table.add_column(title, justify=justify, no_wrap=title != "compared")  # type: ignore[arg-type]
    table.add_column("found")
    for check in verdict.checks:
        table.add_row(
            check.name,
            Text(check.status, style=COLOURS[check.status]),
            _number(check.measured),
            _number(check.tolerance),
            check.detail,
        )
    out.print(table)
    out.print()
    for note in verdict.notes:
        out.print(f"- {note}")
    out.print()
    first = verdict.first_divergence
    if first is not None:
        step = f" (step {first.step})" if first.step is not None else ""
        out.print(Text(f"First divergence: {first.name}{step}: {first.detail}", style="bold red"))
        if first.cause:
            out.print(Text(f"Likely cause: {first.cause}", style="red"))
    word = "EQUAL" if verdict.equal else "NOT EQUAL"
    steps = min(len(verdict.source_losses), len(verdict.port_losses))
    line = f"{word}: {verdict.source} and {verdict.port}, {steps} steps, {verdict.seconds:.0f} s"
    out.print(Text(line, style="bold green" if verdict.equal else "bold red"))


def _number(value: float | None) -> str:
    return "exact" if value is None else f"{value:.1e}"
