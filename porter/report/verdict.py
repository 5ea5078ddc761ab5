"""The verdict of a validation on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..validate.comparing.verdict import Check, Verdict
from .terminal import show

NUMBERS = ("verdict", "largest", "tolerance")
COLOURS = {"equal": "green", "differs": "bold red", "skipped": "dim"}


def show_verdict(verdict: Verdict, out: Console) -> None:
    """Print what was compared in its order, the first divergence and its cause, and on what the two scripts ran."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("verdict", "largest", "tolerance", "what was compared, and what was found"):
        table.add_column(title, overflow="fold", no_wrap=title in NUMBERS)
    for check in verdict.checks:
        status = Text(check.status, style=COLOURS[check.status])
        what = Text(check.name, style="bold").append(f"\n{check.detail}" if check.detail else "", style="not bold dim")
        table.add_row(status, _number(check.measured), _tolerance(check), what)
    show(table, out)
    out.print()
    told = {*verdict.stood_in, *verdict.not_compared}
    general = [note for note in verdict.notes if note.removeprefix("never compared: ") not in told]
    for note in general:
        show(Text(f"- {note}"), out)
    if general:
        out.print()
    show(_table(verdict), out)
    out.print()
    if verdict.output:
        show(Text(verdict.output, style="dim"), out)
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


def _table(verdict: Verdict) -> Table:
    """What was compared, what stood in, and what was not compared: one row a kind, a line each."""
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for kind, lines in verdict.table.items():
        # The checks stand above with all that was found: their names are enough.
        text = ", ".join(check.name for check in verdict.checks if check.status != "skipped")
        table.add_row(kind, text if kind == "compared" and text else "\n".join(lines) or "nothing")
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def _tolerance(check: Check) -> str:
    """A quantity without a tolerance has to agree exactly; one that was left out has none."""
    return "" if check.status == "skipped" else _number(check.tolerance) or "exact"
