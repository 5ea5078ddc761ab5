"""Puts the lines of a log in order: doubles, restarts, gaps, another order, losses that aren't finite, rounding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...errors import InputError
from .log import Found, Line, Log, Row, Value

FLOAT32_MOST = 3.5e38
MOST_STEPS = 2**53  # behind which floats don't tell one from the next
SHOWN = 5  # of a list of steps
AT_ONCE = 3  # steps that start again, and half of all: no run is restarted so often, two wrote into one log


def in_order(path: Path, found: Found, *, steps_per_epoch: float | None = None) -> Log:
    """The log of what a reader found; `steps_per_epoch` gives lines a step that have their epoch alone.

    InputError where nothing of training is left, or where there are two runs.
    """
    rows = [_bounded(row) for row in found.rows if isinstance(row.get("loss"), Value)]
    if not rows:
        raise InputError("holds no line of training with a loss", path, fix="name the log of a run that has trained")
    notes = list(found.notes)
    rows = _stepped(path, rows, steps_per_epoch)
    if any(abs(row["step"]) > MOST_STEPS for row in rows):
        raise InputError("counts steps that no run takes", path, fix="name the log of a run that has trained")
    rows = [row for row in rows if row["step"] > 0]
    rows, said = _once(path, rows)
    notes += said
    if not rows:
        raise InputError("holds no line of training behind step 0", path)
    gap = _interval([row["step"] for row in rows])
    odd = tuple(row["step"] for row in rows if not _finite(row))
    finite = [row for row in rows if row["step"] not in odd]
    untold = []
    if odd:
        masked = any(row["loss"].number == 0 for row in rows if not _finite(row))
        where = ", where transformers writes 0 (logging_nan_inf_filter)" if masked else ""
        untold.append(f"steps {_list(odd)}: the loss isn't finite there{where}")
    starts = _starts([row["step"] for row in rows], gap)
    missing = [
        f"{a + 1}-{start}" for a, start in zip([0, *(row["step"] for row in rows)], starts, strict=False) if start > a
    ]
    if missing:
        untold.append(f"steps {', '.join(missing[:SHOWN])}: no line, the log has gaps")
    if found.max_steps is not None and rows[-1]["step"] + gap <= found.max_steps:
        untold.append(
            f"steps {rows[-1]['step'] + 1}-{found.max_steps}: the log ends before the run's {found.max_steps} steps"
        )
    halves = _rounding(finite)
    lines = tuple(
        Line(row["step"], start, _with(row["loss"], halves.get("loss", 0.0)), _values(row, halves))
        for row, start in zip(rows, starts, strict=True)
        if row["step"] not in odd
    )
    if not lines:
        raise InputError("has no finite loss", path)
    return Log(str(path), found.kind, lines, found.settings, tuple(notes), tuple(untold), odd, found.max_steps)


def _finite(row: Row) -> bool:
    """Whether the loss is a number. transformers logs 0 where it was none; the gradient's norm is none there, too."""
    norm = row.get("grad_norm")
    masked = row["loss"].number == 0 and norm is not None and math.isnan(norm.number)
    return math.isfinite(row["loss"].number) and not masked


def _bounded(row: Row) -> dict[str, Any]:
    """The row with what no float32 is taken for infinite: the sum of squares of a run's numbers has to be a number."""
    return {
        name: replace(each, number=math.inf) if isinstance(each, Value) and abs(each.number) > FLOAT32_MOST else each
        for name, each in row.items()
    }


def needs_steps(found: Found) -> bool:
    """Whether lines have no step of their own."""
    return any(row.get("step") is None for row in found.rows)


def steps_per_epoch(log: Log) -> float | None:
    """By the last line that has its epoch."""
    for line in reversed(log.lines):
        epoch = line.values.get("epoch")
        if epoch is not None and epoch.number > 0:
            return line.step / epoch.number
    return None


def _stepped(path: Path, rows: list[dict[str, Any]], per_epoch: float | None) -> list[dict[str, Any]]:
    if all(row.get("step") is not None for row in rows):
        return rows
    at = [row["epoch"].number * per_epoch if "epoch" in row and per_epoch is not None else math.nan for row in rows]
    if not all(map(math.isfinite, at)):
        raise InputError(
            "its lines have no steps, and no progress bars that would tell them", path,
            fix="name the run's trainer_state.json, or output with the progress bars in it",
        )  # fmt: skip
    return [{**row, "step": round(step)} for row, step in zip(rows, at, strict=True)]


def _once(path: Path, rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Each step once, in ascending order, and what was said about it."""
    notes = []
    steps = [row["step"] for row in rows]
    if len(set(steps)) == len(steps):
        if steps != sorted(steps):
            notes.append("its lines were in another order: they were sorted by step")
        return sorted(rows, key=lambda row: row["step"]), notes
    kept: list[dict[str, Any]] = []
    by_step: dict[int, dict[str, Any]] = {}
    doubles, restarts = 0, []
    for row in rows:
        if kept and row["step"] <= kept[-1]["step"]:
            same = by_step.get(row["step"])
            if same is not None and _same(same, row):
                doubles += 1
                continue
            if row["step"] <= kept[0]["step"] and len(kept) > 1:
                raise InputError(
                    f"holds two runs: behind step {kept[-1]['step']} it starts again at step {row['step']}", path,
                    fix="name a log of one run",
                )  # fmt: skip
            restarts.append(row["step"])
            while kept and kept[-1]["step"] >= row["step"]:
                del by_step[kept.pop()["step"]]
        kept.append(row)
        by_step[row["step"]] = row
    if len(restarts) >= AT_ONCE and 2 * len(restarts) >= len(set(steps)):
        raise InputError(
            f"holds two runs at once: {len(restarts)} of its {len(set(steps))} steps are there again with another loss",
            path,
            fix="name a log of one run",
        )
    if doubles:
        notes.append(f"{doubles} line{'s were' if doubles > 1 else ' was'} there twice")
    if restarts:
        notes.append(f"the run was restarted: from step {_list(restarts)} on the later lines count")
    return kept, notes


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    a, b = one["loss"].number, other["loss"].number
    return bool(a == b or (math.isnan(a) and math.isnan(b)))


def _interval(steps: Sequence[int]) -> int:
    """The most common number of steps between two lines; of several as common the largest, so that no line's steps go.

    Lines at steps 1, 10 and 20 (`logging_first_step`) have gaps of 1, 9 and 10: the means are over ten.
    """
    counts = Counter(b - a for a, b in pairwise([0, *steps]))
    return max(counts, key=lambda gap: (counts[gap], gap))


def _starts(steps: Sequence[int], gap: int) -> list[int]:
    """Behind which step the window of each line begins: the line before, unless lines are missing between."""
    return [before if step - before <= gap else step - gap for before, step in pairwise([0, *steps])]


def _rounding(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Half a unit of what transformers 4 rounded to: losses to 4 decimals, epochs to 2 (later ones to 4)."""
    found = {}
    for name, places in (("loss", (4,)), ("epoch", (2, 4))):
        numbers = [row[name].number for row in rows if name in row and row[name].half == 0]
        for decimals in places:
            if len(numbers) > 1 and all(number == round(number, decimals) for number in numbers):
                found[name] = 0.5 * 10.0**-decimals
                break
    return found


def _values(row: dict[str, Any], halves: dict[str, float]) -> dict[str, Value]:
    kept = {name: each for name, each in row.items() if name not in ("step", "loss") and isinstance(each, Value)}
    return {name: _with(each, halves.get(name, 0.0)) for name, each in kept.items() if math.isfinite(each.number)}


def _with(given: Value, half: float) -> Value:
    return replace(given, half=max(given.half, half))


def _list(steps: Sequence[int]) -> str:
    shown = ", ".join(str(step) for step in steps[:SHOWN])
    return f"{shown} and {len(steps) - SHOWN} more" if len(steps) > SHOWN else shown
