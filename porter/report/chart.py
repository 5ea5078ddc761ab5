"""Line charts as inline SVG: no script, no file beside the page, colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 280
LEFT, RIGHT, TOP, BOTTOM = 78, 16, 14, 40


@dataclass(frozen=True)
class Line:
    """One curve: a value a step, from step 1. `style` is a class of the page's style sheet."""

    name: str
    values: Sequence[float]
    style: str


def chart(lines: Sequence[Line], *, title: str, label: str, log: bool = False, limit: float | None = None) -> str:
    """An SVG of `lines` over steps; `log` for a logarithmic axis, `limit` draws a horizontal line.

    Values that aren't finite, and on a logarithmic axis those that aren't positive, leave a gap.
    """
    drawn = [[_height(value, log) for value in line.values] for line in lines]
    heights = [height for values in drawn for height in values if height is not None]
    line_at = None if limit is None else _height(limit, log)
    if line_at is not None:
        heights.append(line_at)
    steps = max((len(line.values) for line in lines), default=0)
    if not heights or not steps:
        return f'<p class="empty">{escape(title)}: nothing to draw.</p>'
    low, high = min(heights), max(heights)
    marks = ticks(low, high, log)
    low, high = min(low, marks[0]), max(high, marks[-1])

    def x(step: float) -> float:
        return LEFT + (step - 1) / max(steps - 1, 1) * (WIDTH - LEFT - RIGHT)

    def y(height: float) -> float:
        return TOP + (high - height) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    for tick in marks:
        name = f"1e{tick:g}" if log else f"{tick:.4g}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{name}</text>')
    for step in _steps(steps):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">optimizer step</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(label)}</text>')
    if line_at is not None:
        parts.append(
            f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(line_at):.1f}" y2="{y(line_at):.1f}"/>'
        )
    for line, values in zip(lines, drawn, strict=True):
        for run in _runs(values):
            points = " ".join(f"{x(step):.1f},{y(height):.1f}" for step, height in run)
            parts.append(f'<polyline class="{line.style}" points="{points}"/>')
            if len(run) == 1:
                step, height = run[0]
                parts.append(f'<circle class="{line.style}" cx="{x(step):.1f}" cy="{y(height):.1f}" r="2.5"/>')
    parts.append("</svg>")
    return "".join(parts)


def _height(value: float, log: bool) -> float | None:
    if not math.isfinite(value) or (log and value <= 0):
        return None
    return math.log10(value) if log else value


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The (step, height) points between gaps."""
    runs: list[list[tuple[int, float]]] = [[]]
    for step, height in enumerate(values, start=1):
        if height is None:
            runs.append([])
        else:
            runs[-1].append((step, height))
    return [run for run in runs if run]


def ticks(low: float, high: float, log: bool = False) -> list[float]:
    """Round numbers that enclose low..high: decades on a logarithmic axis, else steps of 1, 2 or 5."""
    if log:
        first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
        stride = max(1, math.ceil((last - first) / 6))
        return [float(tick) for tick in range(first, last + stride, stride)]
    span = (high - low) or abs(high) or 1.0
    power = 10 ** math.floor(math.log10(span / 4))
    size = next(factor * power for factor in (1, 2, 5, 10) if factor * power * 5 >= span)
    first, last = math.floor(low / size), math.ceil(high / size)
    return [tick * size for tick in range(first, max(last, first + 1) + 1)]


def _steps(steps: int) -> list[int]:
    stride = max(1, math.ceil(steps / 10))
    return [1, *range(stride, steps + 1, stride)] if stride > 1 else list(range(1, steps + 1))
