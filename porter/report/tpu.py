"""A compiled step and a plan on a terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..tpu.memory import Estimate
from ..tpu.plan import Plan, Row
from ..tpu.results import Pass, Step
from ..tpu.slices import GIB, Slice
from ..tpu.step import Found
from .json import TOOL
from .terminal import console, show

SHOWN = 8


def step_document(found: Found, where: Slice) -> dict[str, Any]:
    """`{tool, version, slice, step, estimate, passes}`; bytes and seconds of one micro-batch on one device."""
    step, formula = found.step, found.formula
    compiled = {"peak": step.peak, "step_seconds": step.step_seconds} if step.memory is not None else {}
    return {
        "tool": TOOL,
        "version": __version__,
        "slice": where.name,
        "hbm": where.hbm,
        "step": step.to_dict() | compiled,
        "estimate": {**asdict(formula), "peak": formula.peak, "passes": [asdict(one) for one in found.passes]},
    }


def show_step(found: Found, where: Slice, *, no_color: bool = False) -> None:
    """Memory by kind, FLOPs, bytes, collectives and XLA's time; the formula's figures where nothing was compiled."""
    step, formula = found.step, found.formula
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
    kind = "" if step.kind == "SFT" else f"{step.kind}: "
    out.print(
        f"{kind}micro-batch {step.batch_rows} x {step.length} tokens, {step.micro_batches} to a step of "
        f"{step.effective_rows} rows; {step.trainable:,d} trainable of {step.parameters + step.trainable:,d}"
    )
    if found.note:
        out.print(Text(f"estimated by formula, not compiled: {found.note}", "yellow"))
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("a chip's memory" if where.chip.devices == 1 else "a device's memory", "GiB"):
        table.add_column(name, justify="right" if name == "GiB" else "left")
    for name, size in _memory_rows(step, formula):
        table.add_row(name, f"{size / GIB:.2f}")
    show(table, out)
    if step.memory is None and not step.short_of_memory:
        out.print(f"{formula.flops / 1e12:.1f} TFLOPs, about {formula.seconds:.3f} s a micro-batch (formula)")
    elif step.memory is not None:
        _show_program(step, out)
    if step.passes:
        _show_passes(found, out)
    if found.lacking[1]:
        name = f" in {found.lacking[0]}" if step.passes else ""
        out.print(Text(f"out of memory by {found.lacking[1] / GIB:.1f} GiB{name}", "bold red"))
    if step.memory is None:
        return
    for risk in step.varying:
        out.print(Text(f"compiles again: {risk}", "yellow"))
    took = (
        "from the cache"
        if step.cached
        else f"traced in {step.trace_seconds:.0f} s, compiled in {_compile_seconds(step):.0f} s"
    )
    took += ", with XLA's least effort (--quick)" if step.quick else ""
    out.print(Text(took, "dim"))


def _compile_seconds(step: Step) -> float:
    return step.compile_seconds + sum(one.compile_seconds for one in step.passes)


def _show_program(step: Step, out: Console) -> None:
    """The training step's FLOPs, bytes, collectives and time."""
    out.print(f"{step.flops / 1e12:.2f} TFLOPs, {step.bytes / 1e9:.1f} GB read and written, a chip and micro-batch")
    for kind, found in (step.collectives or {}).items():
        out.print(f"  {kind}: {found['count']}, {found['bytes'] / 1e9:.2f} GB")
    tokens = step.batch_rows * step.length / step.seconds
    out.print(
        f"XLA's time: {step.seconds:.4f} s a micro-batch, {step.seconds * step.micro_batches:.3f} s a step, "
        f"{step.seconds_a_row:.4f} s a row, {tokens:,.0f} tokens/s"
    )


def _show_passes(found: Found, out: Console) -> None:
    """What the run computes beside its training step, and both together: the larger peak, the sum of the times."""
    step = found.step
    compiled = step.memory is not None and all(one.memory is not None for one in step.passes)
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("an optimizer step", "runs", "GiB", "s a run", "s a step"):
        table.add_column(name, justify="left" if name.startswith("an") else "right", overflow="fold")
    rows: list[tuple[str, float, int, float]] = [
        ("training", step.micro_batches, _training_peak(found), _training_seconds(found) * step.micro_batches)
    ]
    for one, guess in zip(step.passes, found.passes, strict=True):
        peak = one.peak or (one.wanted_memory + one.resident if one.wanted_memory else guess.peak)
        rows.append((_named(one), one.times, peak, one.step_seconds if one.memory is not None else guess.seconds))
    for name, times, peak, seconds in rows:
        table.add_row(name, f"{times:g}", f"{peak / GIB:.2f}", f"{seconds / times:.4f}", f"{seconds:.3f}")
    show(table, out)
    largest, total = max(rows, key=lambda row: row[2]), sum(row[3] for row in rows)
    by = "" if compiled else " (not all of it compiled)"
    out.print(f"peak {largest[2] / GIB:.2f} GiB, in {largest[0].partition(',')[0]}; {total:.3f} s a step{by}")
    if any(one.samples for one in step.passes):
        out.print(Text("sampling's time is that of completions which are all as long as they may be", "dim"))


def _named(one: Pass) -> str:
    if one.samples:
        cache = f"keys and values {one.cache / GIB:.2f} GiB"
        return f"{one.name}, {one.rows} x ({one.prompt} + {one.completion}) tokens, {cache}"
    return f"{one.name}, {one.rows} x {one.length} tokens" + ("" if one.own else f", {one.model}")


def _training_peak(found: Found) -> int:
    step = found.step
    return step.training_peak or (step.wanted_memory + step.resident if step.wanted_memory else found.formula.peak)


def _training_seconds(found: Found) -> float:
    return found.step.seconds if found.step.memory is not None else found.formula.seconds


def _memory_rows(step: Step, formula: Estimate) -> list[tuple[str, int]]:
    beside = step.resident if step.memory is not None or step.wanted_memory else formula.resident
    held = [("reference or teacher, which the step isn't given", beside)] if beside else []
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
            *held,
        ]
        wanted = step.wanted_memory + step.resident if step.wanted_memory else formula.peak
        return [*rows, ("peak" if not step.wanted_memory else "peak (the compiler's)", wanted)]
    found = step.memory
    return [
        ("weights", found.weights),
        ("adapters", found.adapters),
        ("optimizer", found.optimizer),
        ("outputs that are no input's memory", found.outputs - found.aliased),
        ("logits, one float32 copy", found.logits),
        ("activations and other temporaries", max(0, found.temporary - found.logits)),
        *held,
        ("peak", step.training_peak),
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
                "kind": found.step.kind,
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
    kind = "" if step.kind == "SFT" else f"{step.kind}, "
    out.print(
        Text(
            f"{step.model} on {where.name} ({where.chips} chips, {where.hosts} host{'s' if where.hosts > 1 else ''}, "
            f"{where.topology}): {kind}{step.effective_rows} rows of {step.length} tokens a step, {step.steps} steps",
            "bold",
        )
    )
    if step.query_block:
        out.print(f"{step.query_block} queries of a row attend at a time (rt.attend_in_blocks)")
    if found.note:
        out.print(Text(f"by formula alone, nothing was compiled: {found.note}", "yellow"))
    parts = ["training", *(one.name for one in step.passes)] if step.passes else []
    table = Table(box=None, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    own = step.own_batch is not None  # micro-batches are the mesh's
    heads = ("candidate", *([] if own else ["micro-batches"]), f"GiB of {where.hbm / GIB:.0f}", "s a step")
    for name in (*heads, *parts, *([] if parts else ["tokens/s"]), "by", ""):
        table.add_column(name, overflow="fold", no_wrap=name == "candidate" and bool(own or parts))
    for row in found.rows[:SHOWN]:
        by = row.how if row.how == "formula" else f"{row.how}, {' and '.join(map(str, row.compiled_layers))} layers"
        seconds = [row.seconds * row.micro_batches, *(one.seconds for one in row.passes)]
        table.add_row(
            Text(row.candidate.way if own else row.candidate.name, "green" if row is found.best else ""),
            *([] if own else [str(row.micro_batches)]),
            f"{row.peak / GIB:.1f}",
            f"{row.step_seconds:.3f}",
            *([f"{each:.3f}" for each in seconds] if parts else [f"{row.tokens_a_second:,.0f}"]),
            by,
            row.why_not,
        )
    show(table, out)
    if len(found.rows) > SHOWN:
        out.print(f"and {len(found.rows) - SHOWN} more")
    if parts and found.best is not None:
        peaks = [f"{one.name} {one.peak / GIB:.1f} GiB" for one in found.best.passes]
        out.print(f"{found.best.candidate.name}: at most {found.best.peak / GIB:.1f} GiB; {', '.join(peaks)}")
        if any(one.samples for one in step.passes):
            out.print(Text("sampling's time is that of completions which are all as long as they may be", "dim"))
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
