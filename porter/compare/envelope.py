"""How far two runs of one recipe lie apart, measured on runs of which that is known.

Either the GPU's log and further logs of the same script (another seed, another machine), or runs of the recipe on a
stand-in: in bf16 and in float32, each with its own adapters and dropout. Every pair of these is a sample of what
chance and rounding do. Differences are shares of the loss, smoothed over the run, so that runs of different size can
stand for each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from .logs.log import Log
from .student import two_sided
from .windows import Window, means

MOST_STEPS = 400  # of a run on a stand-in; behind them the envelope isn't measured
BLOCKS = 12  # of a run, in which drift is looked for
EARLY = 0.05  # of the windows: the weights have hardly moved
PROBABILITY = 0.002  # that a right run is beyond a limit by chance, over all blocks


@dataclass(frozen=True)
class Block:
    """Some windows, first and last number of them."""

    first: int
    last: int

    @property
    def indices(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class Envelope:
    """Limits of a right run against the GPU's, all as shares of the loss.

    `first`: the first window. `early`: root mean square over the first windows. `drift`: mean over each block of
    `blocks`. `scatter`: root mean square about the blocks' means over all windows. `pairs` were measured, of `runs`;
    `source` says of what.
    """

    source: str
    runs: int
    pairs: int
    blocks: tuple[Block, ...]
    first: float
    early: float
    drift: tuple[float, ...]
    scatter: float
    measured_first: float
    measured_early: float
    measured_drift: tuple[float, ...]
    measured_scatter: float


def measure(
    source: str,
    logs: Sequence[Log],
    windows: Sequence[Window],
    scale: Sequence[float] | None,
    *,
    reach: int | None = None,
) -> Envelope | None:
    """The envelope of `logs` in the compared windows; None when fewer than two cover half of them.

    `scale`: the loss that a difference is a share of, by window; None for that of the logs themselves, where they are
    of another model. `reach`: the last step that `logs` were to have; None for the windows' own last.
    """
    enough = max(2, len(within(windows, reach)) // 2)
    covered = [(log.chance, curve) for log in logs if _known(curve := means(log, windows)) >= enough]
    curves = [curve for _, curve in covered]
    if len(curves) < 2:
        return None
    relative = [_relative(a, b, scale) for a, b in combinations(curves, 2)]
    alike = [a is not None and a == b for a, b in combinations([chance for chance, _ in covered], 2)]
    known = [index for index in range(len(windows)) if all(pair[index] is not None for pair in relative)]
    until = known[-1] + 1 if known else 0
    if until < 2:
        return None
    blocks = split(until)
    early = early_windows(until)
    all_pairs = [[pair[index] or 0.0 for index in range(until)] for pair in relative]
    rounded = [pair for pair, same in zip(all_pairs, alike, strict=True) if same]
    pairs = [pair for pair, same in zip(all_pairs, alike, strict=True) if not same] or all_pairs
    runs = len(curves) - len(rounded)
    drift = _smooth([root([mean([pair[i] for i in block.indices]) for pair in pairs]) for block in blocks])
    scatter = root([scattered(pair, blocks) for pair in pairs])
    start = root([root(pair[:early]) for pair in pairs])
    first, samples = start, early * len(pairs)
    if rounded:  # before the weights have moved two right runs differ by rounding alone
        first = max(root([root(pair[:early]) for pair in rounded]), root([pair[0] for pair in pairs]))
        samples = early * len(rounded)
    # Runs that have chances of their own; what follows each other in one is half alike, a third of a run wholly.
    others = max(1, runs - 1)
    parts = max(1.0, len(blocks) / 4)
    factor = two_sided(PROBABILITY / parts, others * parts)
    at_first, at_start = (two_sided(PROBABILITY, max(1.0, each)) for each in (samples, others * max(1.0, early / 2)))
    free = max(1.0, (until - len(blocks)) / 4)
    widest = math.exp(two_sided(PROBABILITY, free) / math.sqrt(free))  # of two estimates of one spread
    rounding = max((window.half / abs(window.gpu) for window in windows if window.gpu), default=0.0)
    return Envelope(
        source, runs, len(pairs), blocks,
        at_first * first + rounding, at_start * start + rounding,
        tuple(factor * each + rounding for each in drift), widest * scatter + rounding,
        first, start, tuple(drift), scatter,
    )  # fmt: skip


def within(windows: Sequence[Window], reach: int | None) -> Sequence[Window]:
    """The windows up to step `reach`."""
    return [window for window in windows if reach is None or window.step <= reach]


def _known(curve: Sequence[float | None]) -> int:
    return sum(value is not None for value in curve)


def split(count: int) -> tuple[Block, ...]:
    """`count` windows in up to `BLOCKS` blocks of nearly the same size."""
    number = min(BLOCKS, count)
    ends = [round(count * each / number) for each in range(number + 1)]
    return tuple(Block(a, b - 1) for a, b in pairwise(ends))


def early_windows(count: int) -> int:
    return max(1, round(EARLY * count))


def scales(curve: Sequence[float | None], count: int) -> list[float]:
    """What a difference is a share of: the mean size of the loss around each window."""
    sums, known = [0.0], [0]
    for value in curve:
        sums.append(sums[-1] + abs(value or 0.0))
        known.append(known[-1] + (value is not None))
    whole = (sums[-1] / known[-1] if known[-1] else 0.0) or 1.0
    reach = max(2, count // 20)
    found = []
    for index in range(len(curve)):
        first, last = max(0, index - reach), min(len(curve), index + reach + 1)
        near = known[last] - known[first]
        found.append(max((sums[last] - sums[first]) / near, 1e-3 * whole) if near else whole)
    return found


def scattered(differences: Sequence[float], blocks: Sequence[Block]) -> float:
    """Root mean square about the mean of each block."""
    squares = []
    for block in blocks:
        values = [differences[index] for index in block.indices]
        middle = mean(values)
        squares += [(value - middle) * (value - middle) for value in values]  # a power would overflow
    return float(mean(squares) ** 0.5)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def root(values: Sequence[float]) -> float:
    """Root mean square."""
    return float(mean([value * value for value in values]) ** 0.5)


def _relative(
    one: Sequence[float | None], other: Sequence[float | None], scale: Sequence[float] | None
) -> list[float | None]:
    scale = scale or scales(one, len(one))
    return [None if a is None or b is None else (b - a) / size for a, b, size in zip(one, other, scale, strict=True)]


def _smooth(values: Sequence[float]) -> list[float]:
    """Each with its neighbours, and no less than the run so far: a block may lie near by chance."""
    found = []
    for index in range(len(values)):
        near = values[max(0, index - 1) : index + 2]
        found.append(max(root(near), root(values[: index + 2])))
    return found
