"""The batch arithmetic: rows of an optimizer step on the GPUs, and the same number on this mesh."""

from __future__ import annotations

from collections.abc import Sequence

from ..recipe import Field, Recipe

# The writer's row of this name holds the sum where every factor is known; it is no keyword of the source.
SUM = "effective batch"


def batch_line(recipe: Recipe) -> str:
    """`Effective batch: 2 a GPU x 8 accumulated x 4 processes = 64 rows a step → 8 micro-batches of 8 rows on fsdp=8`.

    What the script decides when it runs stands as its code, without a sum. Empty when the recipe has no batch.
    """
    for field in recipe.fields:
        if field.source == SUM:
            return f"Effective batch: {field.value} → {field.target}{f' ({field.reason})' if field.reason else ''}"
    rows, accumulation = recipe.get("batch.per_device"), recipe.get("batch.accumulation")
    if rows is None or accumulation is None:
        return ""
    processes = recipe.known("mesh.processes", 1)
    product = f"{rows.text or rows.code} a GPU x {accumulation.text or accumulation.code} accumulated x {processes}"
    return f"Effective batch: {product} processes, decided when the script runs and split over the mesh then"


def keywords(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The rows that are keywords of the source."""
    return tuple(field for field in fields if field.source != SUM)
