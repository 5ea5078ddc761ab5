"""What a step that reads a script asks for and sets, compared with what it declares.

A field of `Training` and a place of the Recipe (`data.collator`) are things by their names. Of places that no step
declares by itself `given values`, `script values` or `values` is what is read: whichever of them a step stands behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from ...recipe import Recipe
from ..steps.step import Phase, Step, touches
from .training import Training

VALUES = ("given values", "other defaults", "script values", "pack values", "values")
# What is there from the beginning, and what many add to and nobody's outcome hangs on but for what is declared.
FREE = (
    *("module", "options", "packs", "sites", "answers", "names", "imports", "marks", "findings", "fields", "recipe"),
    *("trainer", "loop", "versions", "others", "mates", "kept", "full_elsewhere", "launch", "mesh", "ignored"),
)


class Undeclared(Exception):
    """A step reads or sets what it doesn't declare."""


@dataclass
class Watch:
    """The step that runs, and what those of its phase declare."""

    steps: tuple[Step, ...]
    now: Step | None = None
    of: Training | None = None  # which the step was given; copies that it makes are its own

    def read(self, thing: str) -> None:
        if self.now is None:
            return
        own = (*self.now.reads, *self.now.fills, *self.now.settles)
        if any(touches(thing, each) for each in own) or ("." in thing and set(self.now.fills) & set(VALUES)):
            return  # what fills values asks which are there
        makers = [each for each in self.steps if any(touches(thing, made) for made in (*each.fills, *each.settles))]
        if makers:
            raise Undeclared(f"{self.now.name} reads {thing}, which {makers[0].name} makes")
        if "." in thing and not set(own) & set(VALUES):
            raise Undeclared(f"{self.now.name} reads {thing}, and no values")

    def written(self, thing: str) -> None:
        if self.now is None:
            return
        own = (*self.now.fills, *self.now.settles)
        if any(touches(thing, each) for each in own) or ("." in thing and set(self.now.fills) & set(VALUES)):
            return
        raise Undeclared(f"{self.now.name} sets {thing}")

    def watched(self, step: Step) -> Step:
        def run(training: Training) -> None:
            self.now, self.of = step, training
            try:
                step.run(training)
            finally:
                self.now = self.of = None

        return replace(step, run=run)


@contextmanager
def watching(steps: Iterable[Step]) -> Iterator[Watch]:
    """While this lasts, a step made by `Watch.watched` raises where it reads or sets what it doesn't declare."""
    watch = Watch(tuple(each for each in steps if each.phase is Phase.READ))
    watched = {each.name for each in fields(Training)} - set(FREE)
    get: Callable[..., Any] = object.__getattribute__

    def read(self: Training, name: str) -> Any:
        if name in watched and self is watch.of:
            watch.read(name)
        return get(self, name)

    def set_(self: Training, name: str, value: Any) -> None:
        if self is not watch.of:
            pass
        elif name == "recipe":
            for place in _changed(vars(self)["recipe"], value):
                watch.written(place)
        elif name in watched and vars(self)[name] is not value:
            watch.written(name)
        object.__setattr__(self, name, value)

    def asked(function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Recipe, place: str, *rest: Any) -> Any:
            watch.read(place)
            return function(self, place, *rest)

        return ask

    usual = {name: getattr(Recipe, name) for name in ("get", "known")}
    Training.__getattribute__, Training.__setattr__ = read, set_  # type: ignore[method-assign, assignment]
    for name, function in usual.items():
        setattr(Recipe, name, asked(function))
    try:
        yield watch
    finally:
        del Training.__getattribute__, Training.__setattr__
        for name, function in usual.items():
            setattr(Recipe, name, function)


def _changed(old: Recipe, new: Recipe) -> list[str]:
    return [place for place in {**old.values, **new.values} if old.values.get(place) != new.values.get(place)]
