"""A training log as all readers give it: lines of one run, and what was found out about them while reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

# What is read of a line; the names are transformers' and TRL's.
RECORD = "a port's record"  # the kind of a log: a line for every step, with the rate of the step itself
VALUES = ("loss", "learning_rate", "epoch", "grad_norm", "num_tokens")
LARGEST = 1_000_000_000  # bytes of a log
FLOAT32 = 2.0**-24  # half a unit in the last place, relative: what TensorBoard keeps of a number


@dataclass(frozen=True)
class Value:
    """A number of a log and half a unit of its last place: what is written may be off by as much."""

    number: float
    half: float = 0.0


# One line of a log before it is put in order: values by name, and `step` where the line says it.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One line of training: the mean loss of the optimizer steps `start` + 1 to `step`, and values at `step`."""

    step: int
    start: int
    loss: Value
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Log:
    """One run.

    `path` and `kind` say where the lines are from; `settings` what the run was asked for, by the names of
    TrainingArguments and LoraConfig, as far as it lies with the log; `notes` what was found and put right while
    reading; `untold` what can't be told from this log. `not_finite` are steps without a finite loss. `chance`: runs on
    a stand-in with the same one differ in their precision alone.
    """

    path: str
    kind: str
    lines: tuple[Line, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    not_finite: tuple[int, ...] = ()
    max_steps: int | None = None
    chance: int | None = None

    @property
    def last(self) -> int:
        return self.lines[-1].step

    def at(self, name: str) -> dict[int, Value]:
        """A value by step, of the lines that have it."""
        return {line.step: line.values[name] for line in self.lines if name in line.values}

    def noted(self, *notes: str) -> Log:
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True)
class Found:
    """What a reader takes from a file, before it is put in order."""

    kind: str
    rows: tuple[Row, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    max_steps: int | None = None


def value(given: Any, half: float = 0.0) -> Value | None:
    """A Value of a plain number, None for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return Value(number(given), half)


def number(given: int | float | str) -> float:
    """As `float`, but infinite for a whole number that is too large for one."""
    try:
        return float(given)
    except OverflowError:
        return math.inf


def row(given: Mapping[str, Any], step: int | None) -> dict[str, Any]:
    """The values of `VALUES` among plain numbers."""
    found: dict[str, Any] = {name: kept for name in VALUES if (kept := value(given.get(name))) is not None}
    return {**found, "step": step}


def whole_lines(text: str) -> tuple[str, str]:
    """The lines of a text that have their end, and what to say of a last one that hasn't: half a number is another."""
    end = text.rfind("\n") + 1 or len(text)
    rest = text[end:].strip()
    return text[:end], "its last line has no end and was left out: the file was cut off there" if rest else ""
