"""One replacement in a source text: what every writer plans, and nothing else changes a source."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .marks import Carries


@dataclass(frozen=True)
class Edit:
    """One replacement in the source text: `text[start:end]` becomes `new`; line and column from 1.

    `part` is what of the port it makes, for passes that add to that; `reason` is for people alone. `carries` are the
    values of the source that `new` is made of, each with the line of `new` (from 0) that has it.
    """

    start: int
    end: int
    new: str
    rule: str
    reason: str
    line: int
    column: int
    part: str = ""
    carries: Carries = ()

    def below(self, front: str, carries: Carries = ()) -> Edit:
        """The edit with further text in front of its own, and what that carries."""
        lines = front.count("\n") or front.count("\r")
        own = tuple((line + lines, key) for line, key in self.carries)
        return replace(self, new=front + self.new, carries=(*carries, *own))
