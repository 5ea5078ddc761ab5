"""An export on a terminal and as JSON: what was written, and what rounding left of the deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from .. import __version__
from .terminal import show

if TYPE_CHECKING:
    from ..export.check import Checked
    from ..export.run import Exported

KINDS = {"adapter": "PEFT adapter", "merged": "merged model", "model": "whole model"}
SHOWN = 12


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr with bytes a second and the time left; nothing where that is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bars:
        bar = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def show_export(exported: Exported, out: Console) -> None:
    """What was written where; the tensors of which rounding kept little, and what else is worth a word."""
    from ..export.run import LITTLE

    step = f" step {exported.step}" if exported.step is not None else ""
    line = Text(KINDS[exported.kind], style="bold green")
    if exported.linears:
        line.append(f": {exported.linears} linears, rank {exported.rank}, alpha {exported.alpha:g}", style="default")
    line.append(f"; {exported.family},{step or ' one checkpoint'}", style="default not bold")
    out.print(line)
    if exported.retained:
        kept = sorted(value.kept for value in exported.retained.values())
        median = kept[len(kept) // 2]
        out.print(f"Rounding kept {kept[0]:.0%} to {kept[-1]:.0%} of the delta of each tensor (median {median:.0%})")
    if exported.little:
        table = Table(box=None, pad_edge=False, show_edge=False)
        for title in ("tensor", "kept", "|delta|/|W|", "elements moved"):
            table.add_column(title, justify="left" if title == "tensor" else "right", no_wrap=title != "tensor")
        for name in exported.little[:SHOWN]:
            value = exported.retained[name]
            moved = value.moved / value.elements if value.elements else 1.0
            table.add_row(name, f"{value.kept:.0%}", f"{value.size:.2%}", f"{moved:.0%}")
        show(
            Text(
                f"{len(exported.little)} tensors kept less than {LITTLE:.0%}: their deltas are small beside the "
                "weights' rounding. The PEFT adapter (without --merged) keeps all of them, --dtype float32 nearly all",
                style="yellow",
            ),
            out,
        )
        show(table, out)
        if len(exported.little) > SHOWN:
            out.print(f"... and {len(exported.little) - SHOWN} more; --json has them all")
    for note in exported.notes:
        show(Text(f"- {note}"), out)
    if exported.output is not None:
        speed = exported.bytes / max(exported.seconds, 1e-9) / 1e9
        size = f"{exported.bytes / 1e9:.2f} GB" if exported.bytes > 1e8 else f"{exported.bytes / 1e6:.2f} MB"
        rate = f", {speed:.2f} GB/s" if exported.bytes > 1e8 else ""
        out.out(f"Wrote {exported.output} ({size} of tensors in {exported.seconds:.1f} s{rate})")


def show_check(checked: Checked, out: Console) -> None:
    """The logits of the frameworks beside each other."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("logits", "", "largest difference", "tolerance"):
        table.add_column(title, justify="right" if title in ("largest difference", "tolerance") else "left")
    for row in checked.rows:
        word = Text("equal" if row.equal else "differ", style="green" if row.equal else "bold red")
        table.add_row(f"{row.one} and {row.other}", word, f"{row.difference:.1e}", f"{row.tolerance:.1e}")
    show(table, out)
    out.print(f"Training moved logits by up to {checked.effect:.2e}; {checked.tokens} tokens, float32")


def export_document(exported: Exported, checked: Checked | None = None) -> dict[str, Any]:
    """What `--json` prints."""
    document = asdict(exported)
    document["retained"] = {
        name: {"kept": value.kept, "delta_over_weight": value.size, "elements": value.elements, "moved": value.moved}
        for name, value in exported.retained.items()
    }
    document["check"] = None if checked is None else {**asdict(checked), "equal": checked.equal}
    return {"tool": "tpu-port", "version": __version__, "status": "exported", **document}
