"""The answer of a comparison: plain data, JSON out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..validate.comparing.verdict import Check
from .drift import FIRST
from .envelope import Envelope
from .exact import RATES, TOKENS
from .windows import Window

SAME, DRIFTS, OTHER, UNTOLD = "same", "drifts", "another objective", "not told"
Word = Literal["same", "drifts", "another objective", "not told"]
Rates = tuple[tuple[int, float], ...]
CODES = {SAME: 0, DRIFTS: 3, OTHER: 3, UNTOLD: 2}


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    `kinds` of the two logs; `checks` in their order; `windows` both curves; `notes` what was put right while reading;
    `untold` what can't be told from these logs; `rates` the learning rates of both by step;
    `unmeasured` why there is no envelope although its runs were named.
    """

    gpu: str
    tpu: str
    kinds: tuple[str, str]
    checks: tuple[Check, ...]
    windows: tuple[Window, ...]
    envelope: Envelope | None = None
    notes: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    rates: tuple[Rates, Rates] = ((), ())
    unmeasured: str = ""

    @property
    def first(self) -> Check | None:
        """The first check that differs."""
        return next((check for check in self.checks if check.status == "differs"), None)

    @property
    def word(self) -> Word:
        differing = {check.name for check in self.checks if check.status == "differs"}
        if FIRST in differing and not differing & {RATES, TOKENS}:
            return "another objective"
        if differing:
            return "drifts"
        return "not told" if self.envelope is None else "same"

    @property
    def step(self) -> int | None:
        """The step from which on the first of the checks differs."""
        return None if self.first is None else self.first.step

    @property
    def exit_code(self) -> int:
        return CODES[self.word]

    @property
    def line(self) -> str:
        """The verdict in one line."""
        if self.word == SAME:
            assert self.envelope is not None
            return f"THE SAME to step {self.windows[self.envelope.blocks[-1].last].step}"
        if self.word == UNTOLD:
            why = self.unmeasured or "measure one with --source or --second"
            return f"NOT TOLD: nothing differs that needs no envelope; {why}"
        first = self.first
        assert first is not None
        word = "ANOTHER OBJECTIVE" if self.word == OTHER else "DRIFTS"
        return f"{word} from step {self.step}: {first.name}: {first.detail}"

    def to_json(self) -> str:
        first = self.first
        derived: dict[str, Any] = {
            "verdict": self.word,
            "step": self.step,
            "first_divergence": first.name if first else None,
            "reason": first.detail if first else "",
            "cause": first.cause if first else "",
        }
        return json.dumps({**derived, **asdict(self)}, indent=2)
