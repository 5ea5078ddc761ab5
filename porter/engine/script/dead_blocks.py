"""Blocks that never run. `if False:`, by which notebooks offer what to do next, makes and loads nothing.

A branch that a constant of the script, or of its project, turns off stays in the port as it is:

    USE_OWN = False  # or in config.py
    if USE_OWN:
        optimizers = (Own(model.parameters()), None)

What is left to a person in it is needed by those alone who turn it on; where it is the training that is off
(`TRAIN = False`, when it was done), everything is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import libcst as cst

from ...recipe import Value
from ...source.module import Module
from ...source.project.modules import project_text
from ...source.project.usual.trees import imports_of, nodes_of, set_to_in, tree_of
from ...source.read_value import read_value
from ...source.scopes import Binding

TRAINS = ("train", "fit", "backward")
CONSTANTS = {"True": True, "False": False, "None": False}
DECIDED_TRIES = "tries of which the release decides what runs"  # of the module's memory


def is_dead(module: Module, node: cst.CSTNode) -> bool:
    """Whether a node stands in the body of an `if False:`, of a `try` that the release refuses, or of the
    `except` behind one that it takes."""
    dead: dict[cst.CSTNode, bool] = module.memory.setdefault("dead", {})
    tries: Mapping[cst.CSTNode, bool] = module.memory.get(DECIDED_TRIES, {})
    path = []
    while node not in dead:
        path.append(node)
        parent = module.parents.get(node)
        is_refused = isinstance(parent, cst.Try) and parent.body is node and tries.get(parent) is False
        is_behind = isinstance(node, cst.ExceptHandler) and parent is not None and tries.get(parent) is True
        is_off = isinstance(parent, cst.If) and parent.body is node and is_false(parent.test)
        if parent is None or is_off or is_refused or is_behind:
            dead[node] = parent is not None
        else:
            node = parent
    dead |= dict.fromkeys(path, dead[node])
    return dead[node]


def is_false(test: cst.BaseExpression) -> bool:
    """Whether a condition is `False` itself."""
    return isinstance(test, cst.Name) and test.value == "False"


def off_spans(module: Module) -> dict[tuple[int, int], str]:
    """The spans of the branches to which no run comes, and what the condition of each always is."""
    key = "branches that are off"
    if key not in module.memory:
        spans = dict(_off(module))
        trained = [module.span(call)[0] for call in module.calls if _trains(module, call)] if spans else []
        is_off = any(start <= offset < end for offset in trained for start, end in spans)
        module.memory[key] = {} if is_off else spans
    found: dict[tuple[int, int], str] = module.memory[key]
    return found


def turned_off(module: Module, offset: int) -> str | None:
    """What keeps every run from a place, `USE_OWN is False`; None where nothing is known to."""
    return next((test for (start, end), test in off_spans(module).items() if start <= offset < end), None)


def held_while_off(module: Module, node: cst.BaseExpression | None) -> tuple[Value, str] | None:
    """The literal that a variable holds as long as a branch that sets it otherwise is off, and why it is."""
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    if found is None:
        return None
    off = {binding: turned_off(module, module.span(binding.node)[0]) for binding in found[1]}
    values = [binding.value for binding, test in off.items() if test is None]
    tests = [test for test in off.values() if test is not None]
    if not tests or not values or any(value is None for value in values):
        return None
    read = [read_value(module, value) for value in values if value is not None]
    same = all(value.known and value.code == read[0].code for value in read)
    return (read[0], tests[0]) if same else None


def _off(module: Module) -> Iterator[tuple[tuple[int, int], str]]:
    for node in module.parents:
        if isinstance(node, cst.If) and (comes := _constantly(module, node.test)) is not None:
            branch = node.orelse if comes else node.body
            if branch is not None:
                test = module.code(node.test).strip()
                yield module.span(branch), f"{test} is {comes}"


def _trains(module: Module, call: cst.Call) -> bool:
    """Whether a call makes a trainer, or trains."""
    name = module.code(call.func).rpartition(".")[2]
    return name in TRAINS or name.endswith("Trainer")


def _constantly(module: Module, test: cst.BaseExpression) -> bool | None:
    """What a condition always is, by constants alone; None where it isn't known."""
    if isinstance(test, cst.Name):
        return _constant(module, test)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _constantly(module, test.expression)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        decisive = isinstance(test.operator, cst.Or)
        parts = (_constantly(module, test.left), _constantly(module, test.right))
        return decisive if decisive in parts else None if None in parts else not decisive
    return None


def _constant(module: Module, name: cst.Name) -> bool | None:
    found = module.meaning(name)
    if found is None or name.value in _global(module):
        return None
    held = {_bound(module, binding) for binding in found[1]}
    return held.pop() if len(held) == 1 else None


def _global(module: Module) -> frozenset[str]:
    """The names that functions of the file set where others read them."""
    key = "names said to be global"
    if key not in module.memory:
        nodes = (node for node in module.parents if isinstance(node, cst.Global | cst.Nonlocal))
        module.memory[key] = frozenset(item.name.value for node in nodes for item in node.names)
    found: frozenset[str] = module.memory[key]
    return found


def _bound(module: Module, binding: Binding) -> bool | None:
    if binding.kind == "import":
        home, _, name = binding.qualified.rpartition(".")
        text = project_text(module.path, home) if home.strip(".") else None
        return _constant_of(text, name) if text is not None else None
    if binding.kind == "assign" and isinstance(binding.value, cst.Name):
        return CONSTANTS.get(binding.value.value)
    return None


def _constant_of(text: str, name: str) -> bool | None:
    """The truth of a name that a module of the project sets once, to a constant."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    values = set_to_in(tree, name)
    elsewhere = any(isinstance(node, ast.Global) and name in node.names for node in nodes_of(tree))
    elsewhere |= any((each.asname or each.name) in (name, "*") for line in imports_of(tree) for each in line.names)
    changes = (node.target for node in nodes_of(tree) if isinstance(node, ast.AugAssign | ast.For | ast.NamedExpr))
    elsewhere |= any(isinstance(target, ast.Name) and target.id == name for target in changes)
    if elsewhere or len(values) != 1 or not isinstance(values[0], ast.Constant):
        return None
    return values[0].value if isinstance(values[0].value, bool) else False if values[0].value is None else None
