"""A compiled step and a plan on a terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from .. import __version__
from ..tpu.compile import Step
from ..tpu.memory import Estimate
from ..tpu.plan import Plan, Row
from ..tpu.slices import GIB, Slice
from .json import TOOL
from .terminal import console, show

SHOWN = 8


def step_document(step: Step, where: Slice, formula: Estimate) -> dict[str, Any]:
    """`{tool, version, slice, step, estimate}`; bytes and seconds of one micro-batch on one device."""
    return {
        "tool": TOOL,
        "version": __version__,
        "slice": where.name,
        "hbm": where.hbm,
        "step": step.to_dict(),
        "estimate": {**asdict(formula), "peak": formula.peak},
    }


def show_step(step: Step, where: Slice, formula: Estimate, *, note: str = "", no_color: bool = False) -> None:
    """Memory by kind, FLOPs, bytes, collectives and XLA's time; the formula's figures where nothing was compiled."""
    out = console(no_color=no_color)
    mesh = ",".join(f"{name}={size}" for name, size in step.mesh.items())
    layers = f"{step.layers} layers" if step.layers == step.all_layers else f"{step.layers} of {step.all_layers} layers"
    remat = "remat" if step.remat else "no remat"
    if step.query_block:
        remat += f", {step.query_block} queries at a time"
    out.print(
        Text(
            f"{step.model} on {where.name} ({where.chips} chips, {where.chip.title}): {mesh}, {layers}, {remat}", "bold"
        )
    )
    out.print(
        f"micro-batch {step.batch_rows} x {step.length} tokens, {step.micro_batches} to a step of "
        f"{step.effective_rows} rows; {step.trainable:,d} trainable of {step.parameters + step.trainable:,d}"
    )
    if note:
        out.print(Text(f"estimated by formula, not compiled: {note}", "yellow"))
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("a chip's memory" if where.chip.devices == 1 else "a device's memory", "GiB"):
        table.add_column(name, justify="right" if name == "GiB" else "left")
    for name, size in _memory_rows(step, formula):
        table.add_row(name, f"{size / GIB:.2f}")
    show(table, out)
    if step.memory is None and step.short_of_memory:
        out.print(Text(f"out of memory by {step.short_of_memory / GIB:.1f} GiB", "bold red"))
        return
    if step.memory is None:
        out.print(f"{formula.flops / 1e12:.1f} TFLOPs, about {formula.seconds:.3f} s a micro-batch (formula)")
        return
    out.print(f"{step.flops / 1e12:.2f} TFLOPs, {step.bytes / 1e9:.1f} GB read and written, a chip and micro-batch")
    for kind, found in (step.collectives or {}).items():
        out.print(f"  {kind}: {found['count']}, {found['bytes'] / 1e9:.2f} GB")
    tokens = step.batch_rows * step.length / step.seconds
    out.print(
        f"XLA's time: {step.seconds:.4f} s a micro-batch, {step.seconds * step.micro_batches:.3f} s a step, "
        f"{step.seconds_a_row:.4f} s a row, {tokens:,.0f} tokens/s"
    )
    for risk in step.varying:
        out.print(Text(f"compiles again: {risk}", "yellow"))
    took = (
        "from the cache"
        if step.cached
        else f"traced in {step.trace_seconds:.0f} s, compiled in {step.compile_seconds:.0f} s"
    )
    took += ", with XLA's least effort (--quick)" if step.quick else ""
    out.print(Text(took, "dim"))


def _memory_rows(step: Step, formula: Estimate) -> list[tuple[str, int]]:
    if step.memory is None:
        rows = [
            ("weights", formula.weights),
            *(
                [("weights again, as Tunix's step returns them", formula.weight_copies)]
                if formula.weight_copies
                else []
            ),
            ("adapters, before and after", formula.adapters),
            ("optimizer", formula.optimizer),
            ("activations", formula.activations),
            ("logits", formula.logits),
        ]
        wanted = step.wanted_memory or formula.peak
        return [*rows, ("peak" if not step.wanted_memory else "peak (the compiler's)", wanted)]
    found = step.memory
    return [
        ("weights", found.weights),
        ("adapters", found.adapters),
        ("optimizer", found.optimizer),
        ("outputs that are no input's memory", found.outputs - found.aliased),
        ("logits, one float32 copy", found.logits),
        ("activations and other temporaries", max(0, found.temporary - found.logits)),
        ("peak", found.peak),
    ]


def plan_document(plans: list[Plan]) -> dict[str, Any]:
    """`{tool, version, plans: [{slice, rows, dropped, costs, best}]}`."""
    return {
        "tool": TOOL,
        "version": __version__,
        "plans": [
            {
                "slice": found.slice.name,
                "hbm": found.slice.hbm,
                "model": found.step.model,
                "best": _row_document(found.best) if found.best else None,
                "rows": [_row_document(row) for row in found.rows],
                "dropped": [{"mesh": mesh, "why": why} for mesh, why in found.dropped],
                "costs": [asdict(cost) for cost in found.costs],
                "batching": [asdict(way) for way in found.ways],
                "note": found.note,
            }
            for found in plans
        ],
    }


def _row_document(row: Row) -> dict[str, Any]:
    return {
        **asdict(row),
        "estimated_peak": row.estimate.peak,
        "step_seconds": row.step_seconds,
        "tokens_a_second": row.tokens_a_second,
    }


def show_plan(found: Plan, *, no_color: bool = False) -> None:
    """The candidates, the meshes that fell out, and what the run costs."""
    out = console(no_color=no_color)
    step, where = found.step, found.slice
    out.print(
        Text(
            f"{step.model} on {where.name} ({where.chips} chips, {where.hosts} host{'s' if where.hosts > 1 else ''}, "
            f"{where.topology}): {step.effective_rows} rows of {step.length} tokens a step, {step.steps} steps",
            "bold",
        )
    )
    if step.query_block:
        out.print(f"{step.query_block} queries of a row attend at a time (rt.attend_in_blocks)")
    if found.note:
        out.print(Text(f"by formula alone, nothing was compiled: {found.note}", "yellow"))
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("candidate", "micro-batches", f"GiB of {where.hbm / GIB:.0f}", "s a step", "tokens/s", "by", ""):
        table.add_column(name, overflow="fold")
    for row in found.rows[:SHOWN]:
        by = row.how if row.how == "formula" else f"{row.how}, {' and '.join(map(str, row.compiled_layers))} layers"
        table.add_row(
            Text(row.candidate.name, "green" if row is found.best else ""),
            str(row.micro_batches),
            f"{row.peak / GIB:.1f}",
            f"{row.step_seconds:.3f}",
            f"{row.tokens_a_second:,.0f}",
            by,
            row.why_not,
        )
    show(table, out)
    if len(found.rows) > SHOWN:
        out.print(f"and {len(found.rows) - SHOWN} more")
    for mesh, why in found.dropped:
        out.print(f"{mesh}: {why}")
    for number, way in enumerate(found.ways):
        shapes = ", ".join(f"{rows} x {length}" for rows, length in way.shapes)
        line = f"{way.kind}: {way.seconds:.4f} s a row, {way.padding:.0%} padding, "
        out.print(Text(f"{line}{way.micro_batches} micro-batches of {shapes}", "" if number else "green"))
    for cost in found.costs:
        p = cost.price
        out.print(
            f"{cost.hours[0]:.2f}-{cost.hours[1]:.2f} h, {cost.usd[0]:.2f}-{cost.usd[1]:.2f} USD "
            f"at {p.usd} a chip-hour ({', '.join(part for part in (p.kind, p.region, p.date, p.source) if part)})"
        )
    if found.best is None:
        out.print(Text("nothing fits this slice; take a larger one, or --seq-len", "bold red"))


def show_comparison(plans: list[Plan], *, no_color: bool = False) -> None:
    """The best candidate of each slice beside those of the others."""
    out = console(no_color=no_color)
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("slice", "chips", "candidate", "GiB of", "s a step", "hours", "USD"):
        table.add_column(name, overflow="fold")
    for found in plans:
        best = found.best
        if best is None:
            table.add_row(found.slice.name, str(found.slice.chips), "nothing fits", "", "", "", "")
            continue
        money = "; ".join(f"{c.usd[0]:.2f}-{c.usd[1]:.2f} {c.price.kind}" for c in found.costs) or "no price known"
        hours = found.step_seconds * found.step.steps / 3600
        table.add_row(
            found.slice.name,
            str(found.slice.chips),
            best.candidate.name,
            f"{best.peak / GIB:.1f} of {found.slice.hbm / GIB:.0f}",
            f"{found.step_seconds:.3f}",
            f"{hours:.2f}",
            money,
        )
    show(table, out)
