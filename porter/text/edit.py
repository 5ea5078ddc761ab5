"""One replacement in a source text: what every writer plans, and nothing else changes a source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in the source text: `text[start:end]` becomes `new`; line and column from 1.

    `part` is what of the port it makes, for passes that add to that; `reason` is for people alone.
    """

    start: int
    end: int
    new: str
    rule: str
    reason: str
    line: int
    column: int
    part: str = ""
