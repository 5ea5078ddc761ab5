"""Curves over given steps with bands behind them, as inline SVG; see chart.py for curves with a value a step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ..chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ticks


@dataclass(frozen=True)
class Curve:
    """(step, value) points; `style` is a class of the page's style sheet."""

    style: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Band:
    """What lies between two values from one step to another."""

    start: int
    stop: int
    low: float
    high: float


def band_chart(curves: Sequence[Curve], bands: Sequence[Band] = (), *, title: str, label: str) -> str:
    """An SVG; points whose value isn't finite are left out, and the line goes on from the one before."""
    heights = [value for curve in curves for _, value in curve.points if math.isfinite(value)]
    heights += [value for band in bands for value in (band.low, band.high) if math.isfinite(value)]
    steps = [step for curve in curves for step, _ in curve.points]
    if not heights:
        return f'<p class="empty">{escape(title)}: nothing to draw.</p>'
    marks = ticks(min(heights), max(heights))
    low, high = min(min(heights), marks[0]), max(max(heights), marks[-1])
    first, last = min(steps), max(steps)

    def x(step: float) -> float:
        return LEFT + (step - first) / max(last - first, 1) * (WIDTH - LEFT - RIGHT)

    def y(height: float) -> float:
        return TOP + (high - height) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    for band in bands:
        left, right = x(max(band.start, first)), x(band.stop)
        parts.append(
            f'<rect class="band" x="{left:.1f}" width="{max(right - left, 0):.1f}" y="{y(band.high):.1f}" '
            f'height="{max(y(band.low) - y(band.high), 0):.1f}"/>'
        )
    for mark in marks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:.4g}</text>')
    for number in range(6):
        step = round(first + (last - first) * number / 5)
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">optimizer step</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" {turned}>{escape(label)}</text>')
    for curve in curves:
        points = [(x(step), y(value)) for step, value in curve.points if math.isfinite(value)]
        drawn = " ".join(f"{across:.1f},{up:.1f}" for across, up in points)
        parts.append(f'<polyline class="{curve.style}" points="{drawn}"/>')
        if len(points) == 1:
            across, up = points[0]
            parts.append(f'<circle class="{curve.style}" cx="{across:.1f}" cy="{up:.1f}" r="2.5"/>')
    parts.append("</svg>")
    return "".join(parts)
