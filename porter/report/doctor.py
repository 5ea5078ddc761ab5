"""A diagnosis on a terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..front.doctor import Diagnosis
from .json import TOOL
from .terminal import console, show

STYLES = {"ok": "green", "differs": "yellow", "fails": "bold red"}


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """`{tool, version, checks: [{subject, found, health, fix, needed_by}], commands: {name: [why it fails]}}`."""
    commands = {
        name: [f"{check.subject}: {check.found}" for check in failed] for name, failed in diagnosis.commands.items()
    }
    return {
        "tool": TOOL,
        "version": __version__,
        "checks": [asdict(check) for check in diagnosis.checks],
        "commands": commands,
    }


def show_diagnosis(diagnosis: Diagnosis, *, no_color: bool = False) -> None:
    """Print every check, then for every command whether it works here."""
    out = console(no_color=no_color)
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("what", "found", "what to do"):
        table.add_column(name, overflow="fold")
    for check in diagnosis.checks:
        health = Text(check.health, style=STYLES[check.health])
        table.add_row(health, Text(check.subject), Text(check.found), Text(check.fix))
    show(table, out)
    out.print()
    for name, failed in diagnosis.commands.items():
        line = Text(f"{name}: ", style="bold")
        line.append("would fail" if failed else "works", style=STYLES["fails" if failed else "ok"])
        show(line, out)
        for fix in dict.fromkeys(check.fix for check in failed):
            why = ", ".join(f"{check.subject} {check.found}" for check in failed if check.fix == fix)
            show(Padding(Text(f"→ {fix} ({why})"), (0, 0, 0, 4)), out)
