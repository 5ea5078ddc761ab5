"""Training loops that run more than once on one optimizer, by a function that is called again:

def train_epoch():
    for batch in loader: ...

losses = [train_epoch() for epoch in range(3)]

The port makes its trainer where the loop stands, and each would begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.calls import calls_of, function_around
from ...source.module import Module
from .statements.not_standard import NotStandard

REPEATS = (cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda)
ONCE = "Write the loop over epochs around the one over batches, or call the function that holds it in one place."
MAX_CALLS = 8  # functions that call one another


def run_again(module: Module, loop: cst.CSTNode, optimizer: cst.CSTNode) -> Iterator[NotStandard]:
    """Where a loop is run once more than its optimizer is made."""
    with_it = {around for place in _places(module, optimizer) for around in module.ancestors(place)}
    for place in _places(module, loop):
        repeated = next((node for node in _around(module, place) if node not in with_it), None)
        function = function_around(module, place)
        if repeated is None and (function is None or function in with_it):
            return
        again = _called_again(module, function) if repeated is None and function is not None else None
        if repeated is not None or again is not None:
            line = module.line_in_file(repeated or again or place)
            yield NotStandard(loop, f"it runs several times (line {line}) on one optimizer, which goes on", ONCE)
            return


def _around(module: Module, place: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What repeats a place within its function."""
    for node in module.ancestors(place):
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            return
        if isinstance(node, REPEATS):
            yield node


def _places(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A place, the one call of the function that it stands in, and so on to the file's own lines."""
    for _ in range(MAX_CALLS):
        yield node
        function = function_around(module, node)
        calls = calls_of(module, function) if function is not None else []
        if len(calls) != 1:
            return
        node = calls[0]


def _called_again(module: Module, function: cst.FunctionDef) -> cst.CSTNode | None:
    """A call of a function behind another one, or another name for it, which may be called; a library's function that
    is given it calls it once."""
    calls = calls_of(module, function)
    within = next((call for call in calls if function in module.ancestors(call)), None)
    if within is not None:
        return within
    for index, call in enumerate(calls):
        if any(not _are_exclusive(module, call, other) for other in calls[:index]):
            return call
    if isinstance(module.scope(function).node, cst.ClassDef):
        return None
    for use in module.references(function.name.value, module.scope(function)):
        parent = module.parents[use]
        holder = module.parents.get(parent)
        called = isinstance(parent, cst.Call) and parent.func is use
        launched = isinstance(holder, cst.Call) and isinstance(parent, cst.Arg) and holder not in module.callees
        if not called and not launched:
            return use
    return None


def _are_exclusive(module: Module, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two places stand in two branches of an `if`."""
    first, second = [one, *module.ancestors(one)], [other, *module.ancestors(other)]
    for node in first:
        if isinstance(node, cst.If) and node in second:
            return (node.body in first) is not (node.body in second) and node.orelse is not None
    return False
