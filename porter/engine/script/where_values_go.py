"""Where values go: the variables and calls that are given what a site makes, through names, attributes of `self`,
returns and parameters of functions. `flow.py` follows them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ...source.calls import calls_of, function_around, parameter_of
from ...source.module import Module
from ...source.scopes import Scope
from .flow import PLACEMENT, makes_pair, unprepared
from .sites import Site, facts_of


@dataclass(frozen=True)
class Place:
    """A variable that holds a value: a name, or `self.x` with the class as its scope."""

    variable: str
    scope: Scope


def holders(module: Module, site: Site) -> tuple[list[Place], list[cst.Call]]:
    """The variables that hold what a site makes, its own first, and the calls used on the spot that give it back."""
    merged = len(module.memory.get("merged", {}))
    asked = ("holders", site.node, site.variable, site.home, site.role, merged)
    if asked not in module.memory:
        starts: list[Place | cst.Call] = [site.node] if isinstance(site.node, cst.Call) else []
        if site.variable is not None:
            starts.insert(0, Place(site.variable, site.home))
        module.memory[asked] = followed(module, starts, placed=site.role != "trainer")
    places, calls = module.memory[asked]
    return [*places], [*calls]


def followed(module: Module, starts: list[Place | cst.Call], *, placed: bool) -> tuple[list[Place], list[cst.Call]]:
    """`starts`, and the variables and calls that are given the same value; `placed`: through `.to(device)`, too."""

    def is_placed(around: cst.CSTNode) -> bool:
        if not isinstance(around, cst.Attribute) or not placed:
            return False
        return around.attr.value in PLACEMENT or module.parents[around] in module.memory.get("merged", {})

    def placed_on(node: cst.BaseExpression) -> Iterator[Place | cst.Call]:
        around = module.parents[node]
        call = module.parents[around] if is_placed(around) else node
        return handed_on(module, call) if isinstance(call, cst.BaseExpression) else iter(())

    seen: dict[Place | cst.Call, None] = {}  # in order
    pending = deque(starts)
    while pending:
        found = pending.popleft()
        if found in seen:
            continue
        seen[found] = None
        asked = ("goes on to", found, placed, len(module.memory.get("merged", {})))
        if asked not in module.memory:  # a variable is asked for each site that it holds
            uses = module.references(found.variable, found.scope) if isinstance(found, Place) else [found]
            module.memory[asked] = [further for use in uses for further in placed_on(use)]
        pending += module.memory[asked]
    places = [found for found in seen if isinstance(found, Place)]
    calls = [found for found in seen if not isinstance(found, Place)]
    used = [call for call in calls if isinstance(a := module.parents[call], cst.Attribute) and not is_placed(a)]
    return places, used


def handed_on(module: Module, node: cst.BaseExpression) -> Iterator[Place | cst.Call]:
    """The variables, and the calls of its function, that get the value of `node` from the place where it stands."""
    parent = module.parents[node]
    while isinstance(parent, cst.IfExp) and asks_for_wrapper(module, parent.test) and parent.orelse is node:
        node, parent = parent, module.parents[parent]
    if isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
        yield from _bound_by(module, parent.targets[0].target, 0 if makes_pair(module, node) else None)
    elif isinstance(parent, cst.AnnAssign) and parent.value is node:
        yield from _bound_by(module, parent.target)
    elif isinstance(parent, cst.Return):
        yield from _callers_bind(module, parent, None)
    elif isinstance(parent, cst.Element):
        yield from _part_of(module, parent)
    elif isinstance(parent, cst.Arg):
        call = module.parents[parent]
        if isinstance(call, cst.Call) and (unprepared(module, call) is node or unwraps(call)):
            yield call
            return
        name = parameter_of(module, parent, call) if isinstance(call, cst.Call) else None
        if name is not None and isinstance(call, cst.Call):
            yield Place(name, module.scopes[module.callees[call]])


def held_by(module: Module, node: cst.BaseExpression) -> list[Place]:
    """The variables that directly get the value of an expression."""
    return [place for place in handed_on(module, node) if isinstance(place, Place)]


# What torch's DistributedDataParallel and compiled models have, and a model of transformers or Tunix hasn't.
OF_WRAPPERS = ("module", "_set_static_graph", "_orig_mod", "_ddp_params_and_buffers_to_ignore")
WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DDP", "FSDP", "DeepSpeedEngine")


def asks_for_wrapper(module: Module, test: cst.BaseExpression) -> bool:
    """`hasattr(model, "module")`, `isinstance(model, DistributedDataParallel)`."""
    if not isinstance(test, cst.Call) or len(test.args) != 2:
        return False
    asked, called = module.code(test.args[1].value), module.code(test.func)
    if called == "isinstance":
        package, _, name = (module.qualified(test.args[1].value) or "").partition(".")
        return package in facts_of(module).gpu_side and name.rpartition(".")[2] in WRAPPERS
    return called == "hasattr" and asked.strip("\"'") in OF_WRAPPERS


def unwraps(node: cst.CSTNode | None) -> bool:
    """`accelerator.unwrap_model(model)`: the model itself."""
    called = node.func if isinstance(node, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.attr.value == "unwrap_model"


def _part_of(module: Module, element: cst.Element) -> Iterator[Place | cst.Call]:
    holder = module.parents[element]
    if not isinstance(holder, cst.Tuple | cst.List):
        return
    index = list(holder.elements).index(element)
    around = module.parents[holder]
    if isinstance(around, cst.Return):
        yield from _callers_bind(module, around, index)
    elif isinstance(around, cst.Assign) and around.value is holder and len(around.targets) == 1:
        yield from _bound_by(module, around.targets[0].target, index)


def _callers_bind(module: Module, node: cst.Return, index: int | None) -> Iterator[Place | cst.Call]:
    function = function_around(module, node)
    for call in calls_of(module, function) if function is not None else ():
        parent = module.parents[call]
        if index is None:
            yield call
        elif isinstance(parent, cst.Assign) and parent.value is call and len(parent.targets) == 1:
            yield from _bound_by(module, parent.targets[0].target, index)
        elif isinstance(parent, cst.Return):
            yield from _callers_bind(module, parent, index)


def _bound_by(module: Module, target: cst.BaseExpression, index: int | None = None) -> Iterator[Place]:
    if index is not None:
        if not isinstance(target, cst.Tuple | cst.List) or index >= len(target.elements):
            return
        target = target.elements[index].value
    found = module.meaning(target)
    if found is not None:
        yield Place(module.code(target), found[0])
