"""The batch arithmetic: rows of an optimizer step on the GPUs, and the same number on this mesh."""

from __future__ import annotations

import math
import re

from ..recipe import Recipe

FSDP = re.compile(r"(?:^|,)\s*fsdp\s*=\s*(\d+)")


def batch_lines(recipe: Recipe, mesh: str | None = None) -> tuple[str, ...]:
    """`GPU: 1 a process × 8 accumulated × 2 processes = 16 rows an optimizer step`, then its split on `mesh`.

    Values that the script decides when it runs stand as their code, without a sum. Empty when the recipe says
    nothing about batches. The split is the runtime's: micro-batches of the smallest multiple of the fsdp axis that
    holds the GPUs' micro-batch, filled with masked rows when they don't divide evenly.
    """
    places = ("batch.per_device", "batch.accumulation", "batch.processes")
    values = [recipe.get(place) for place in places]
    if values[0] is None and values[1] is None:
        return ()
    known = [1 if value is None else recipe.known(place) for place, value in zip(places, values, strict=True)]
    shown = [
        str(count) if isinstance(count, int) else value.code if value is not None else "1"
        for count, value in zip(known, values, strict=True)
    ]
    product = f"{shown[0]} a process × {shown[1]} accumulated × {shown[2]} process{'' if shown[2] == '1' else 'es'}"
    counts = [count for count in known if isinstance(count, int)]
    if len(counts) < len(known):
        return (f"GPU: {product} rows an optimizer step; the port keeps it, whatever the script is given",)
    rows = math.prod(counts)
    lines = [f"GPU: {product} = {rows} rows an optimizer step"]
    fsdp = FSDP.search(mesh or "")
    if fsdp is None:
        lines.append(f"TPU: the same {rows} rows, split over the devices that are there when it runs")
    else:
        micro = counts[0] * counts[2]
        axis = int(fsdp[1])
        size = max(1, math.ceil(micro / axis)) * axis
        steps = math.ceil(rows / size)
        filled = size * steps - rows
        fill = f", {filled} of them masked filling" if filled else ""
        lines.append(f"TPU: {size} rows on fsdp={axis} × {steps} accumulated = {size * steps} rows{fill}")
    return tuple(lines)
