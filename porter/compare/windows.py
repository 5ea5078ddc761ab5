"""Two logs beside each other: the windows of steps that both tell the mean loss of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .logs.log import Line, Log


@dataclass(frozen=True)
class Window:
    """Steps `start` + 1 to `step`: the mean losses of both logs, and by how much rounding may have moved each."""

    start: int
    step: int
    gpu: float
    tpu: float
    half: float = 0.0

    @property
    def difference(self) -> float:
        return self.tpu - self.gpu


def aligned(gpu: Log, tpu: Log) -> tuple[Window, ...]:
    """The smallest windows that both logs cover with whole lines."""
    shared = sorted(_ends(gpu.lines) & _ends(tpu.lines))
    found = []
    for start, step in pairwise(shared):
        one, other = _mean(gpu.lines, start, step), _mean(tpu.lines, start, step)
        if one is not None and other is not None:
            found.append(Window(start, step, one[0], other[0], one[1] + other[1]))
    return tuple(found)


def means(log: Log, windows: Sequence[Window]) -> list[float | None]:
    """The mean loss of another log in the same windows; None where its lines don't make one up."""
    found = (_mean(log.lines, window.start, window.step) for window in windows)
    return [None if mean is None else mean[0] for mean in found]


def _ends(lines: Sequence[Line]) -> set[int]:
    return {line.start for line in lines} | {line.step for line in lines}


def _mean(lines: Sequence[Line], start: int, step: int) -> tuple[float, float] | None:
    """Mean and rounding over the lines that fill the steps behind `start` up to `step`."""
    low, high = 0, len(lines)
    while low < high:  # the first line that begins at `start` or later
        middle = (low + high) // 2
        if lines[middle].start < start:
            low = middle + 1
        else:
            high = middle
    at, total, half = start, 0.0, 0.0
    for index in range(low, len(lines)):
        line = lines[index]
        if line.start != at or line.step > step:
            return None
        total += line.loss.number * (line.step - line.start)
        half += line.loss.half * (line.step - line.start)
        at = line.step
        if at == step:
            return total / (step - start), half / (step - start)
    return None
