"""One replacement in a source text: what every writer plans, and nothing else changes a source."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from .import_lines import names_in
from .marks import Carries

# A name with its attributes, but for what is bound or given as a keyword by it: `rt.load_model`, not `dtype=`.
READ = re.compile(r"(?<![\w.])[^\W\d]\w*(?:\.[^\W\d]\w*)*\b(?!\s*=[^=])")
CALLED = re.compile(r"(?<![\w.])([^\W\d]\w*(?:\.[^\W\d]\w*)*)\(")


@dataclass(frozen=True)
class Edit:
    """One replacement in the source text: `text[start:end]` becomes `new`; line and column from 1.

    `part` is what of the port it makes, for passes that add to that; `reason` is for people alone. `carries` are the
    values of the source that `new` is made of, each with the line of `new` (from 0) that has it. Who decides by another
    rule's edit asks what it is a part of, what it takes out, and what its code names and calls; never its text.
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

    @cached_property
    def removes(self) -> bool:
        """Whether nothing takes the place of what goes."""
        return not self.new.strip()

    @property
    def constant(self) -> bool | None:
        """What is decided where the edit stands; None where it writes other code."""
        return {"True": True, "False": False}.get(self.new)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its code, without strings and comments."""
        return frozenset(re.findall(r"\w+", names_in(self.new))) if self.new else frozenset()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that its code reads, with the attributes behind them: `trainer.batches`."""
        return frozenset(READ.findall(names_in(self.new))) if self.new else frozenset()

    @cached_property
    def calls(self) -> frozenset[str]:
        """The names that its code calls: `rt.load_model`."""
        return frozenset(CALLED.findall(names_in(self.new))) if self.new else frozenset()

    def below(self, front: str, carries: Carries = ()) -> Edit:
        """The edit with further text in front of its own, and what that carries."""
        lines = front.count("\n") or front.count("\r")
        own = tuple((line + lines, key) for line, key in self.carries)
        return replace(self, new=front + self.new, carries=(*carries, *own))

    def line_of(self, value: str) -> int | None:
        """The first of its lines (from 0) in which a value stands; with "" the first that isn't blank."""
        lines = self.new.split("\n")
        return next((number for number, line in enumerate(lines) if value in line and line.strip()), None)

    def moved_out(self, step: int) -> Edit | None:
        """The edit with its further lines `step` columns less deep; None where one of them doesn't stand so deep."""
        first, *rest = self.new.split("\n")
        if not rest:
            return self
        if any(line.strip() and line[:step].strip(" \t") for line in rest) or '"""' in self.new or "'''" in self.new:
            return None
        last = rest[-1][step:]  # also where it is the indentation of what follows
        moved = [line[step:] if line.strip() else line for line in rest[:-1]]
        return replace(self, new="\n".join([first, *moved, last]))

    def without_header(self, header: str) -> Edit | None:
        """The edit without the line that its first statement stands below; None where it begins with another."""
        found = re.match(rf"{re.escape(header)}:\r?\n[ \t]*", self.new)
        return replace(self, new=self.new[found.end() :]) if found is not None else None
