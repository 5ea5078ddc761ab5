"""Which micro-batches a step's rows go through: padded to the longest, in buckets of length, or packed.

All three train the same (`porter.runtime.batches.sft_batches`): what differs is how much of them is padding, how many
shapes are compiled, and how often the weights are read. Seconds and memory of a shape come from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..runtime.batches.step_packing import Shape, packed
from ..runtime.facts.lengths import rounded

SAMPLED = 64  # steps that are looked at, besides the longest, which has to fit
SHAPES = 6  # at most, as each is compiled


@dataclass(frozen=True)
class Batching:
    """`kind`: padding, buckets or packing. `seconds` of one row of the data, `padding` the share of padding."""

    kind: str
    shapes: tuple[Shape, ...]
    micro_batches: int
    seconds: float
    padding: float

    @property
    def argument(self) -> str:
        """What `rt.SFTBatches` is told; empty for padding."""
        if self.kind == "packing":
            return f"step_packing={list(self.shapes)}"
        return f"buckets={[length for _, length in self.shapes]}" if self.kind == "buckets" else ""


def batchings(
    lengths: Sequence[int],
    group: int,
    batch: int,
    rows_multiple: int,
    seconds: Callable[[Shape], float],
    fits: Callable[[Shape], bool],
) -> list[Batching]:
    """The ways that fit, the fastest first.

    `group`: rows of an optimizer step; `batch`: rows of a micro-batch that is padded, at most; `rows_multiple`: the
    fsdp axis, which divides a micro-batch; `seconds` and `fits`: of a micro-batch of a shape.
    """
    every = [list(lengths[start : start + group]) for start in range(0, len(lengths), group)]
    steps = [*every[:SAMPLED], *([max(every[SAMPLED:], key=sum)] if every[SAMPLED:] else [])]
    longest = rounded(max(lengths))
    while batch > rows_multiple and not fits((batch, longest)):
        batch -= rows_multiple
    found = [_padded(steps, batch, [longest], seconds, "padding")]
    found.append(
        _padded(steps, batch, sorted({rounded(round(longest * n / 4)) for n in (1, 2, 3, 4)}), seconds, "buckets")
    )
    packing = _packing(steps, group, longest, rows_multiple, seconds, fits)
    usable = [way for way in found if all(fits(shape) for shape in way.shapes)]
    return sorted([*usable, *([packing] if packing else [])], key=lambda way: way.seconds)


def _padded(
    steps: list[list[int]], batch: int, buckets: list[int], seconds: Callable[[Shape], float], kind: str
) -> Batching:
    """Rows dealt by length, each micro-batch padded to the smallest bucket that holds its longest row."""
    time, slots = 0.0, 0
    count = -(-max(len(step) for step in steps) // batch)
    for step in steps:
        ordered = sorted(step, reverse=True) if len(buckets) > 1 else step
        for first in range(0, count * batch, batch):
            part = ordered[first : first + batch]
            length = next(bucket for bucket in buckets if bucket >= max(part, default=0))
            time += seconds((batch, length))
            slots += batch * length
    return _made(kind, [(batch, length) for length in buckets], count, steps, time, slots)


def _packing(
    steps: list[list[int]],
    group: int,
    longest: int,
    rows_multiple: int,
    seconds: Callable[[Shape], float],
    fits: Callable[[Shape], bool],
) -> Batching | None:
    """Shapes taken one by one, each the one that saves most, for the number of micro-batches that is best."""
    mean = sum(map(sum, steps)) / len(steps)
    lengths = sorted({rounded(round(longest * n / 6)) for n in (2, 2.5, 3, 3.5, 4, 5, 6)}, reverse=True)
    rows = range(rows_multiple, max(group, rows_multiple) + 1, rows_multiple)
    best: Batching | None = None
    for count in range(1, group + 1):
        # A micro-batch holds the mean step's share, or what a step may need beyond it.
        pool = [
            (r, t) for t in lengths for r in rows if 0.4 * mean <= count * r * t <= 1.8 * mean + r * t and fits((r, t))
        ]
        way, left = _greedy(steps, pool, count, seconds)
        if way is not None and not left and (best is None or way.seconds < best.seconds):
            best = way
        elif best is not None:
            break
    return best


def _greedy(
    steps: list[list[int]], pool: list[Shape], count: int, seconds: Callable[[Shape], float]
) -> tuple[Batching | None, int]:
    """Shapes out of `pool`, each the one with which most steps fit, or which saves most; and how many don't fit."""
    way: Batching | None = None
    left = len(steps)
    while pool and (way is None or len(way.shapes) < SHAPES):
        shapes = way.shapes if way is not None else ()
        tried = [_tried(steps, [*shapes, shape], count, seconds) for shape in pool if shape not in shapes]
        unfit, better = min(tried, key=lambda one: (one[0], one[1].seconds), default=(left, way))
        if better is None or (way is not None and (unfit, better.seconds) >= (left, 0.995 * way.seconds)):
            break
        way, left = better, unfit
    return way, left


def _tried(
    steps: list[list[int]], shapes: list[Shape], count: int, seconds: Callable[[Shape], float]
) -> tuple[int, Batching]:
    """How many steps these shapes don't hold in `count` micro-batches, and packing of the others."""
    time, slots, unfit = 0.0, 0, 0
    each = {shape: seconds(shape) for shape in shapes}
    for step in steps:
        found = packed(step, shapes, count)
        unfit += found is None
        time += sum(each[shape] for shape, _ in found or [])
        slots += sum(rows * length for (rows, length), _ in found or [])
    return unfit, _made("packing", shapes, count, steps, time, slots)


def _made(kind: str, shapes: Sequence[Shape], count: int, steps: list[list[int]], time: float, slots: int) -> Batching:
    rows = sum(map(len, steps))
    return Batching(kind, tuple(shapes), count, time / rows, 1 - sum(map(sum, steps)) / max(1, slots))
