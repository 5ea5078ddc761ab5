"""CSV: what W&B exports of a run or a panel, or any table with a step and a loss."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from ...errors import InputError
from .log import VALUES, Found, Value, whole_lines
from .printed import half_unit

STEPS = ("train/global_step", "global_step", "step", "Step", "_step")
COUNTED = ("Step", "_step")  # W&B's count of log calls: optimizer steps only where every step is logged


def is_table(text: str) -> bool:
    """Whether the first line is a header with a column of steps and one of losses."""
    try:
        header = next(csv.reader([text.partition("\n")[0]]), [])
    except csv.Error:
        return False
    names = [name.strip() for name in header]
    return any(name in STEPS for name in names) and any(name.endswith("loss") for name in names)


def read_csv(path: Path, text: str) -> Found:
    """InputError for a table without a step or a loss, with the losses of several runs, or with W&B's own steps."""
    csv.field_size_limit(1_000_000)
    text, cut = whole_lines(text)
    try:
        table = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InputError(f"is no CSV ({error})", path) from error
    header = [name.strip() for name in table[0]] if table else []
    step = next((header.index(name) for name in STEPS if name in header), None)
    places: dict[str, list[int]] = {name: [] for name in VALUES}
    for number, title in enumerate(header):
        name = title.rpartition(" - ")[2].removeprefix("train/")
        if name in places and "__MIN" not in title and "__MAX" not in title:
            places[name].append(number)
    if step is None or not places["loss"]:
        raise InputError(
            f"has no column of {'optimizer steps' if step is None else 'training losses'}", path,
            fix="export train/loss with train/global_step as its x axis",
        )  # fmt: skip
    if len(places["loss"]) > 1:
        raise InputError(f"has the losses of {len(places['loss'])} runs", path, fix="export one run")
    rows = []
    for cells in table[1:]:
        if len(cells) <= step or not (count := _number(cells[step])) or not math.isfinite(count.number):
            continue
        values = {
            name: given for name, columns in places.items() for column in columns
            if column < len(cells) and (given := _number(cells[column]))
        }  # fmt: skip
        rows.append({**values, "step": int(count.number)})
    if header[step] in COUNTED and rows and rows[0]["step"] == 0:
        raise InputError(
            f"column {header[step]} counts W&B's log calls, not optimizer steps", path,
            fix="export with train/global_step as the x axis",
        )  # fmt: skip
    counted = f"its column {header[step]} is taken for the optimizer step" if header[step] in COUNTED else ""
    return Found("CSV", tuple(rows), notes=tuple(note for note in (counted, cut) if note))


def _number(text: str) -> Value | None:
    try:
        return Value(float(text), half_unit(text.strip()))
    except ValueError:
        return None
