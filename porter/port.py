"""The front door: one source file in, one Port out; nothing is run and nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .recipe import Field, Finding, Recipe

Status = Literal["ported", "partial", "unsupported", "unchanged", "error"]


@dataclass(frozen=True)
class Edit:
    """One replacement in the source text: `text[start:end]` becomes `new`; line and column from 1."""

    start: int
    end: int
    new: str
    rule: str
    reason: str
    line: int
    column: int


@dataclass(frozen=True)
class Port:
    """What porting one file gave.

    `before` and `after` are the source's and the port's text (newlines and byte order mark as in the file).
    `status`: ported (nothing left to do), partial (runs or nearly, a person has something to decide),
    unsupported (a trainer was found that can't be ported), unchanged (nothing of ours in the file).
    """

    path: str
    before: str
    after: str
    status: Status
    recipe: Recipe
    edits: tuple[Edit, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.recipe.fields

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.recipe.findings
