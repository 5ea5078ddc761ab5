"""A step: what a function does while a script is ported, declared where the function stands.

    @step(Phase.ANSWER, reads=("moved",))
    def rewrite_named_types(porting: Porting) -> None: ...

Nobody keeps an order of these steps: a phase follows the other, and within one a step stands behind those that fill or
settle what it reads. What `fills` a thing makes it, what `settles` it changes what is there, what `reads` it wants it
whole. What is read of a script is a thing by its name: `model`, a field of `Training`; `data.collator`, a place of the
Recipe; `data.*`, all of a section. Others are words that steps agree on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Phase(Enum):
    """When a step runs.

    FIND: what the script is made of, before a trainer of it is read. READ: what a trainer trains with, in the Recipe
    and the fields of `Training`, which has no edits. WRITE: what falls of its sites, and what they become. ANSWER: what
    the script does around these, in any order. CARRY: what belongs to a trainer is given to the code that asks for it.
    SETTLE: what nothing needs any more goes, again until nothing more falls. NAME: now that it is known what stays, it
    is answered or named.
    """

    FIND = "find"
    READ = "read"
    WRITE = "write"
    ANSWER = "answer"
    CARRY = "carry"
    SETTLE = "settle"
    NAME = "name"


@dataclass(frozen=True)
class Step:
    """A function and what it was declared to do; `of` is what it is called with, each trainer or the file.

    One of a pack has the pack's name, its file and line, and the id of its `rule`, with which it is left out; no rule
    where it is a part of the pack itself. `anywhere`: what it names ends the port in whichever module of the project
    it stands, also in one that stays as it is.
    """

    run: Callable[..., Any]
    phase: Phase
    of: Literal["trainer", "file"]
    reads: tuple[str, ...] = ()
    fills: tuple[str, ...] = ()
    settles: tuple[str, ...] = ()
    rule: str = ""
    pack: str = ""
    path: Path | None = None
    line: int = 0
    anywhere: bool = False

    def __hash__(self) -> int:
        """Of the function alone: tuples of all steps are looked up many times a port."""
        return hash(self.run)

    @property
    def name(self) -> str:
        """Its module and function; of a pack's, the pack, the file and the function."""
        where = f"{self.pack}.{self.path.stem}" if self.path is not None else self.run.__module__
        return f"{where}.{self.run.__qualname__}"


def touches(one: str, other: str) -> bool:
    """Whether two things are the same, or one is a section that the other is of: `data.*` and `data.collator`."""
    if one.endswith(".*"):
        return other.startswith(one[:-1])
    return other == one or (other.endswith(".*") and one.startswith(other[:-1]))


def step(
    phase: Phase,
    *,
    of: Literal["trainer", "file"] = "file",
    reads: tuple[str, ...] = (),
    fills: tuple[str, ...] = (),
    settles: tuple[str, ...] = (),
    anywhere: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function to be a step; it stays the function that it is."""

    def declared(function: Function) -> Function:
        function.step = Step(function, phase, of, reads, fills, settles, anywhere=anywhere)  # type: ignore[attr-defined]
        return function

    return declared
