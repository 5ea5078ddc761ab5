"""What a function gives back without a GPU, where that is nothing: `None`, `{}`, a dictionary without a key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import asks_for_gpu, function_around, inside

from ._gpu_questions import is_question, known_value, on_gpu

EMPTY = ("{}", "[]", "()", "dict()", "list()", "tuple()", '""', "''")


@dataclass(frozen=True)
class Lack:
    """What a function gives without a GPU: `None`, something empty, or a dictionary without `keys`."""

    function: cst.FunctionDef
    given: str
    keys: frozenset[str] = frozenset()


def lacking(porting: Porting) -> Iterator[Lack]:
    """The functions of the file that give back something only where there is a GPU."""
    module = porting.module
    for holder in [node for node in module.parents if isinstance(node, cst.If | cst.IfExp)]:
        function = function_around(module, holder)
        if function is None or porting.covered(module.span(holder.test)[0]) or not is_asked(porting, holder.test):
            continue
        known = on_gpu(porting, holder.test)
        if known is None:
            continue
        lack = _by_if(porting, function, holder, known is not False) if isinstance(holder, cst.If) else None
        if isinstance(holder, cst.IfExp) and isinstance(module.parents[holder], cst.Return):
            given = _given(porting, holder.orelse if known is not False else holder.body)
            lack = Lack(function, given) if given else None
        if lack is not None:
            yield lack


def is_asked(porting: Porting, test: cst.BaseExpression) -> bool:
    """Whether a condition asks for a GPU, itself or by a variable, and the port still does."""
    module = porting.module
    if not asks_for_gpu(module, test) or any(_is_another(porting, way) for way in _ways(test)):
        return False
    asked = [node for node in inside(test) if is_question(porting, node)]
    names = [module.single_binding(node) for node in inside(test) if isinstance(node, cst.Name)]
    held = [each.value for each in names if each is not None and each.kind == "assign" and each.value is not None]
    asked += [node for value in held for node in inside(value) if is_question(porting, node)]
    return any(not porting.covered(module.span(node)[0]) for node in asked)


def _ways(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The conditions of an `or`; any other itself."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        yield from _ways(test.left)
        yield from _ways(test.right)
    else:
        yield test


def _is_another(porting: Porting, way: cst.BaseExpression) -> bool:
    """Whether one of several conditions may hold without a GPU, too."""
    return not asks_for_gpu(porting.module, way) and known_value(porting, way) is not False


def _by_if(porting: Porting, function: cst.FunctionDef, holder: cst.If, runs_on_gpu: bool) -> Lack | None:
    """What a function with such an `if` gives back on a TPU machine, where that is nothing."""
    own, held = [*_own(function)], {*inside(holder.body)}
    of_gpu = [node for node in own if (node in held) is runs_on_gpu]
    others = [node for node in own if (node in held) is not runs_on_gpu]
    if any(isinstance(node, cst.Raise) for node in others):
        return None
    given = [node.value for node in others if isinstance(node, cst.Return)]
    if any(isinstance(node, cst.Return) and not _is_none(porting, node.value) for node in of_gpu):
        what = {_given(porting, value) for value in given} or {"None"}
        return Lack(function, next(iter(what))) if len(what) == 1 and "" not in what else None
    if len(given) != 1 or not isinstance(given[0], cst.Name) or not runs_on_gpu:
        return None
    return _by_variable(porting, function, given[0].value, of_gpu, others)


def _by_variable(
    porting: Porting, function: cst.FunctionDef, name: str, of_gpu: list[cst.CSTNode], others: list[cst.CSTNode]
) -> Lack | None:
    """`stats = None`, and only on a GPU `stats = {...}`, or `stats["memory"] = ...`."""
    module = porting.module
    set_there = [
        line for line in of_gpu if isinstance(line, cst.Assign) and module.code(line.targets[0].target) == name
    ]
    before = [line for line in others if isinstance(line, cst.Assign) and module.code(line.targets[0].target) == name]
    if set_there and len(before) == 1 and (given := _given(porting, before[0].value)):
        return Lack(function, given)
    keys, known = _keys(porting, name, of_gpu), _keys(porting, name, others)
    for line in before:
        if isinstance(line.value, cst.Dict):
            known |= {module.code(e.key).strip("\"'") for e in line.value.elements if isinstance(e, cst.DictElement)}
    return Lack(function, "", frozenset(keys - known)) if keys - known and before else None


def _keys(porting: Porting, name: str, lines: list[cst.CSTNode]) -> set[str]:
    """The keys that some lines set of a dictionary."""
    targets = [line.targets[0].target for line in lines if isinstance(line, cst.Assign)]
    held = [each for each in targets if isinstance(each, cst.Subscript) and porting.module.code(each.value) == name]
    return {key for each in held if (key := key_of(each))}


def key_of(node: cst.Subscript) -> str:
    index = node.slice[0].slice
    value = index.value if isinstance(index, cst.Index) else None
    return str(value.evaluated_value) if isinstance(value, cst.SimpleString) else ""


def _own(function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    """The nodes of a function without those of functions in it."""
    inner = {
        node
        for each in inside(function.body)
        if isinstance(each, cst.FunctionDef | cst.Lambda)
        for node in inside(each.body)
    }
    return (node for node in inside(function.body) if node not in inner)


def _is_none(porting: Porting, value: cst.BaseExpression | None) -> bool:
    return value is None or porting.module.code(value) == "None"


def _given(porting: Porting, value: cst.BaseExpression | None) -> str:
    """`None`, `{}`; an empty text for what has parts."""
    if _is_none(porting, value):
        return "None"
    code = porting.module.code(value) if value is not None else ""
    return code if code in EMPTY else ""
