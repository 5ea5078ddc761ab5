"""The report on a terminal: the diff by hunks with rules and reasons, the fate of every keyword, what is left to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..port import Port
from ..recipe import Field, Finding, Place, Receipt
from ..safety.shown import visible
from .batch import batch_line, keywords
from .diff import Hunk, diff_hunks

# Two columns of text need this much room.
WIDE = 130
HEADINGS = ("keyword = value", "→ where it is in the port: why")
LONGEST_VALUE = 160
LONGEST_LINE = 64
FATES = {"exact": "green", "changed": "yellow", "dropped": "cyan", "manual": "bold red"}
SEVERITIES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
STATUSES = {"ported": "bold green", "partial": "bold yellow", "unsupported": "bold red", "unchanged": "bold"}
DIFF = {"+": "green", "-": "red", "\\": "dim"}


class Shown(Console):
    """A console on which text of a source is seen and never obeyed, wherever in a table or line it stands."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console(*, no_color: bool = False) -> Console:
    """A console on stdout: colours only on a terminal that wants them; 80 columns when piped."""
    return Shown(no_color=no_color or None, highlight=False, emoji=False, markup=False, soft_wrap=False)


def show_port(port: Port, output: Path | None, written: Sequence[Path], out: Console) -> None:
    """Print the whole report of one port, behind those of the modules that are written beside it."""
    for module in port.modules:
        if module.beside:
            show_port(module, output.parent / module.beside if output is not None else None, (), out)
            out.print()
    if port.before != port.after:
        out.out(f"--- {port.path}", style="bold")
        out.out(f"+++ {output if output is not None else '(not written)'}", style="bold")
        for hunk in diff_hunks(port.before, port.after, port.edits):
            show_hunk(replace(hunk, lines=tuple(map(port.masked, hunk.lines))), out)
        out.print()
    if fields := keywords(port.fields):
        show(field_table(fields, out.width), out)
        out.print()
        if batch := batch_line(port.recipe):
            show(Text(batch), out)
        always = _defaults_of()
        versions = port.recipe.versions.items()
        used = {name: how for name, how in versions if name in port.before or name == always or "--source" in how}
        if said := ", ".join(f"{library} {version}" for library, version in used.items()):
            show(Text(f"Defaults that the source left out: those of {said}"), out)
        out.print()
    if port.findings:
        out.print(Text(f"{_count(len(port.findings), 'finding')}:", style="bold"))
        for finding in port.findings:
            show_finding(port.place(finding.line, finding.column), finding, out)
        out.print()
    show(verdict(port), out)
    for path in written:
        out.out(f"Wrote {path}")


def _defaults_of() -> str:
    """The library that loads models, named where the source doesn't name it."""
    from ..engine.packs.packs import load_packs
    from ..engine.packs.said_by_packs import loader

    return loader(load_packs()).library


def show(what: RenderableType, out: Console) -> None:
    """Print without the blanks that fill a line up, which a pipe would keep."""
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as captured:
        out.print(what)
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def show_hunk(hunk: Hunk, out: Console) -> None:
    """One hunk: header, the rules and reasons of its edits, then its lines, unwrapped."""
    out.out(hunk.header, style="cyan")
    for rule, reason in hunk.why:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f"  {rule}", style="bold magenta"), Text(reason, style="magenta"))
        show(grid, out)
    if not out.is_terminal:
        out.file.write("".join(f"{visible(line)}\n" for line in hunk.lines))
        return
    for line in hunk.lines:
        out.out(visible(line), style=DIFF.get(line[0]))


def field_table(fields: Sequence[Field], width: int) -> Table:
    """Every keyword of the source: value → fate → the port's line that has it → why; of a keyword of a rule's table,
    which has no line, where it goes. Long cells wrap.

    On a narrow screen the two halves share a column, so that names and expressions stay in one piece.
    """
    places = ["line"] if any(field.line for field in fields) else []
    texts = HEADINGS if width >= WIDE else [" ".join(HEADINGS)]
    table = Table(show_edge=False, pad_edge=False, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in (*places, "fate", *texts):
        justify: Literal["left", "right"] = "right" if name == "line" else "left"
        table.add_column(name, overflow="fold", no_wrap=name in ("line", "fate"), justify=justify)
    for field in fields:
        line = [Text(str(field.line) if field.line else "", style="dim")] if places else []
        keyword, value = Text(field.source, style="bold"), Text(visible(_short(field.value)))
        said = Text(" = ").join([keyword, value]) if value else keyword
        became = Text(f"→ {went(field)}" if went(field) else "", style="green")
        where = Text(": ").join(filter(None, [became, Text(field.reason, style="dim")]))
        halves = [said, where] if width >= WIDE else [Text("\n").join(filter(None, [said, where]))]
        table.add_row(*line, Text(field.fate, style=FATES[field.fate]), *halves)
    return table


def went(field: Field) -> str:
    """Where a keyword is in the port: `line 41: learning_rate=1e-4`, and the line that reads it of an object."""
    places = field.places if isinstance(field, Receipt) else ()
    if not places:
        return field.target
    first, *further = places
    where = f"{first.file} line {first.line}" if first.file else f"line {first.line}"
    lines = f", and {_lines(further)}" if further else ""
    return f"{where}: {_code(first.text)}{lines}"


def _lines(places: Sequence[Place]) -> str:
    numbers = [f"{place.file} {place.line}" if place.file else str(place.line) for place in places]
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _code(line: str) -> str:
    """A line of the port without the comma and the comment behind it, cut where it is long."""
    code = re.sub(r"\s\s+#.*$", "", visible(line)).rstrip().removesuffix(",")
    return code if len(code) <= LONGEST_LINE else f"{code[: LONGEST_LINE - 1]}…"


def show_finding(place: str, finding: Finding, out: Console) -> None:
    """`train.py:12:5 warning TP214: message`, and on the next line what to do."""
    head = Text(f"{place} ", style="bold")
    head.append(finding.severity, style=SEVERITIES[finding.severity])
    head.append(f" {finding.rule}: {finding.message}")
    show(Padding(head, (0, 0, 0, 2)), out)
    if finding.fix:
        show(Padding(Text(f"→ {finding.fix}"), (0, 0, 0, 4)), out)


def verdict(port: Port) -> Text:
    """The last word: status, what became what, how many keywords met which fate, what is left to do."""
    text = Text(port.status, style=STATUSES.get(port.status, "bold"))
    if port.status == "unchanged":
        text.append(": nothing to port in this file (no trainer that tpu-port knows)", style="default not bold")
        return text
    parts = []
    if port.recipe.trainer:
        parts.append(f"{port.recipe.trainer} → {port.recipe.target or 'no counterpart'}")
    if fields := keywords(port.fields):
        fates = Counter[str](field.fate for field in fields)
        counts = ", ".join(f"{fates[fate]} {fate}" for fate in FATES if fates[fate])
        parts.append(f"{_count(len(fields), 'keyword')}: {counts}")
    left = sum(finding.severity != "info" for finding in port.findings)
    parts.append(f"{_count(left, 'finding')} to look at" if left else "nothing left to do")
    text.append(": " + "; ".join(parts), style="default not bold")
    return text


def _short(value: str) -> str:
    """One line of at most LONGEST_VALUE characters; the JSON report has all of it."""
    line = " ".join(value.split()) if "\n" in value or "\r" in value else value
    return line if len(line) <= LONGEST_VALUE else f"{line[: LONGEST_VALUE - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
