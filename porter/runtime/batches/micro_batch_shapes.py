"""The lengths and shapes that a run's micro-batches may have, as they are asked for and as a mesh can hold them."""

from __future__ import annotations

from collections.abc import Sequence

from jax.sharding import Mesh

from ..facts.lengths import rounded
from .arrays import divisible
from .step_packing import Shape


def lengths_of(buckets: Sequence[int], longest: int, multiple: int) -> tuple[int, ...]:
    """`buckets` as lengths that batches have: rounded up to a multiple as `longest` is, none longer, and `longest`."""
    wrong = [bucket for bucket in buckets if bucket < 1]
    if wrong:
        raise ValueError(f"buckets={list(buckets)}: a row can't be {wrong[0]} tokens long")
    lengths = {rounded(bucket, multiple) for bucket in buckets}
    return (*sorted(length for length in lengths if length < longest), longest)


def shapes_of(step_packing: Sequence[tuple[int, int]], mesh: Mesh, multiple: int) -> tuple[Shape, ...]:
    """`step_packing`, pairs of rows and tokens, as shapes that the mesh divides, of rounded lengths."""
    wrong = [shape for shape in step_packing if len(shape) != 2 or min(shape) < 1]
    if wrong or not step_packing:
        raise ValueError(f"step_packing={list(step_packing)}: expected pairs (rows, tokens)")
    return tuple((divisible(rows, mesh), rounded(tokens, multiple)) for rows, tokens in step_packing)
