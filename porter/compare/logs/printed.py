"""What transformers, a port or Tunix print while they train: lines of dicts, progress bars, absl's lines.

A dict that transformers prints has no step; the progress bar that is drawn after it has. Without bars the lines have
their epoch alone, and the other log's steps an epoch tell the steps (see order.py).
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

from .log import VALUES, Found, Value

LINE = re.compile(r"\{'[^{}\n\r]{1,4000}\}")
ITEM = re.compile(r"'([\w/]+)': '?([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))'?(?=[,}])")
BAR = re.compile(r"(?<!\d)(\d{1,12})/(\d{1,12}) \[\d")
TUNIX = re.compile(r"Train step (\d{1,12}) training loss: (\S{1,30})(?=\s)")  # half a number is another


def read_printed(text: str) -> Found:
    """The lines of training in a run's output, whatever else it holds."""
    tunix = [
        {"step": int(step), "loss": Value(float(loss), 5e-7)} for step, loss in TUNIX.findall(text) if _number(loss)
    ]
    lines = [(found.end(), _values(found[0])) for found in LINE.finditer(text)]
    lines = [(end, values) for end, values in lines if "loss" in values]
    if not lines:
        return Found("printed lines", tuple(tunix))
    ends = list(BAR.finditer(text))
    total = Counter(found[2] for found in ends).most_common(1)
    bars = [(found.start(), int(found[1])) for found in ends if found[2] == total[0][0]]
    rows: list[dict[str, Any]] = []
    at = 0
    for number, (end, values) in enumerate(lines):
        until = lines[number + 1][0] if number + 1 < len(lines) else len(text)
        while at < len(bars) and bars[at][0] < end:
            at += 1
        step = bars[at][1] if at < len(bars) and bars[at][0] < until else None
        rows.append({**values, "step": step})
    known = [each["step"] for each in rows if each["step"]]
    if len(known) < len(rows) - 1 or any(b <= a for a, b in pairwise(known)):
        rows = [{**each, "step": None} for each in rows]
    elif rows[-1]["step"] is None:
        rows.pop()  # the end of the output is missing
    return Found("printed lines", tuple(rows), max_steps=int(total[0][0]) if total else None)


def _values(text: str) -> dict[str, Value]:
    return {name: Value(float(given), half_unit(given)) for name, given in ITEM.findall(text) if name in VALUES}


def half_unit(text: str) -> float:
    """Half a unit of the last digit that is written; whole numbers and a repr of 15 digits and more are exact."""
    mantissa, _, exponent = text.lower().lstrip("+-").partition("e")
    _, _, decimals = mantissa.partition(".")
    if not decimals and not exponent:
        return 0.0
    digits = mantissa.replace(".", "").lstrip("0")
    if len(digits) >= 12:
        return 0.0
    power = int(exponent) if exponent else 0
    # '%.4g' leaves zeros at the end out: four digits are what it had.
    places = len(decimals) + max(0, 4 - len(digits)) if digits else len(decimals) + 3
    return 0.5 * float(f"1e{power - places}")  # an exponent may be too large for a power


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
