"""The order of steps, from what they say they read, fill and settle."""

from __future__ import annotations

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

from .step import Phase, Step, touches

GIVEN = ("trainer", "loop", "versions", "others", "mates", "kept", "full_elsewhere", "launch", "mesh")  # of a Training
Choice = Callable[[Sequence[Step]], Step]  # which of the steps that may be next is


def first(ready: Sequence[Step]) -> Step:
    """The first by name, so that the order is always the same."""
    return min(ready, key=lambda each: each.name)


class BadSteps(Exception):
    """Steps that can't be put in order; the message names them, `steps` are they."""

    def __init__(self, said: str, *steps: Step) -> None:
        super().__init__(said)
        self.steps = steps


def steps_in(packages: Iterable[str]) -> tuple[Step, ...]:
    """The steps that the modules of packages declare, their folders included. Modules are imported."""
    found: dict[str, Step] = {}
    for package in packages:
        for module in _modules(importlib.import_module(package)):
            for value in vars(module).values():
                made = getattr(value, "step", None)
                if isinstance(made, Step) and made.run.__module__ == module.__name__:
                    found[made.name] = made
    return tuple(found[name] for name in sorted(found))


def _modules(package: ModuleType) -> Iterable[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def ordered(steps: Iterable[Step], given: Iterable[str] = (), choose: Choice = first) -> tuple[Step, ...]:
    """Steps of one phase, each behind those that it needs; of several that may be next `choose` takes one.

    `given`: what is there before the first of them. BadSteps for a circle, and where nobody fills what one reads.
    """
    known = sorted(steps, key=lambda each: each.name)
    fill: dict[str, list[Step]] = defaultdict(list)
    settle: dict[str, list[Step]] = defaultdict(list)
    for each in known:
        for thing in each.fills:
            fill[thing].append(each)
        for thing in each.settles:
            settle[thing].append(each)
    there = dict.fromkeys(given, ())
    graph: dict[Step, set[Step]] = {each: set() for each in known}
    for each in known:
        for thing in (*each.reads, *each.settles):
            if not any(True for known in (fill, there) for _ in _touching(known, thing)):
                raise BadSteps(f"{each.name} wants {thing}, which no step fills", each)
            graph[each].update(_of(fill, thing))
        for thing in each.reads:
            graph[each].update(_of(settle, thing))
        graph[each].discard(each)
    return _sorted(graph, choose)


def _of(steps: Mapping[str, Sequence[Step]], thing: str) -> list[Step]:
    """The steps of all things that are a part of one, or that it is a part of."""
    return [each for other in _touching(steps, thing) for each in steps[other]]


def _touching(known: Mapping[str, object], thing: str) -> Iterator[str]:
    """Those of the `known` things that one touches, see `touches`."""
    if thing.endswith(".*"):
        yield from (other for other in known if touches(thing, other))
        return
    if thing in known:
        yield thing
    parts = thing.split(".")[:-1]
    for count in range(1, len(parts) + 1):
        if (section := ".".join([*parts[:count], "*"])) in known:
            yield section


def _sorted(graph: dict[Step, set[Step]], choose: Choice) -> tuple[Step, ...]:
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        steps = error.args[1][::-1]
        circle = " -> ".join(each.name for each in steps)
        raise BadSteps(f"each of these steps needs the next one's outcome: {circle}", *steps) from None
    found: list[Step] = []
    ready: list[Step] = []
    while sorter.is_active():
        ready += sorter.get_ready()
        chosen = choose(ready)
        ready.remove(chosen)
        found.append(chosen)
        sorter.done(chosen)
    return tuple(found)


@cache
def by_phase(packages: tuple[str, ...], more: tuple[Step, ...] = ()) -> dict[tuple[Phase, str], tuple[Step, ...]]:
    """The steps of packages, and `more` of packs, in order, by phase and what they are of. BadSteps where they can't
    be put in one."""
    return arranged((*steps_in(packages), *more))


def arranged(steps: Iterable[Step], choose: Choice = first) -> dict[tuple[Phase, str], tuple[Step, ...]]:
    """Steps in order: phase after phase, in each those of the trainers before those of the file."""
    every, given = list(steps), set(GIVEN)
    found: dict[tuple[Phase, str], tuple[Step, ...]] = {}
    for phase in Phase:
        for of in ("trainer", "file"):
            own = [each for each in every if (each.phase, each.of) == (phase, of)]
            found[phase, of] = ordered(own, given, choose)
            given.update(thing for each in own for thing in each.fills)
    return found
