"""Models that stand in a list or a dict of the script: of a loop the port trains each, of a menu the one that is asked.

One that Tunix hasn't ends the port when its turn comes, or when somebody chooses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import libcst as cst

from ...recipe import Value
from ...runtime.facts.families import find_family, read_family, refusal
from ...source.calls import argument_of, calls_of
from ...source.module import Module
from ...source.project.other_models import is_known_without
from ...source.values import Unknown, evaluate
from ..script.following.reaching import reaching
from ..script.training import Training, families

PLACES = re.compile(r"out|dir|save|log|push|adapter", re.IGNORECASE)  # keys of what is written
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
PASSED_ON = ("items", "values", "keys", "list", "enumerate", "tqdm", "sorted")
DEEPEST = 6


def say_menu(porting: Training, value: Value) -> bool:
    """An error for a model of a loop that Tunix hasn't, a line for one of a menu; whether it is an error."""
    node = _node_of(porting, value)
    for held, each in _held(porting.module, node, DEEPEST) if node is not None else ():
        names = [name for name in _models(held) if _is_without(porting, name)]
        if not names:
            continue
        shown = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
        line, column = (value.origin.line, value.origin.column) if value.origin else (1, 1)
        if each:
            message = f"{shown}: Tunix can't compute it; the port ends when the loop comes to it."
            porting.find("TP302", "error", message, "Leave it out of the loop, or train it on GPUs.", line, column)
        else:
            message = f"{shown}: may be chosen here, and Tunix can't compute it; the port ends then."
            porting.find("TP302", "info", message, "Choose another one.", line, column)
        return each
    return False


def menu_of(porting: Training, value: Value) -> list[str] | None:
    """The models of which a value is always one: `MODELS[args.size]`; None where it may be another."""
    node = _node_of(porting, value)
    return _items(porting.module, node, DEEPEST) if node is not None else None


def _items(module: Module, node: cst.BaseExpression, depth: int) -> list[str] | None:
    held = _value(module, node)
    if isinstance(held, str):
        return [held]
    if isinstance(node, cst.Subscript) or (_is_get(node) and _has_no_fallback(node)):
        owner = node.value if isinstance(node, cst.Subscript) else node.func.value  # type: ignore[attr-defined]
        found = _value(module, owner)
        if isinstance(found, dict | list | tuple):
            return [*_models(found)]
        return _items(module, owner, depth - 1) if depth > 0 else None
    bindings = reaching(module, node) if isinstance(node, cst.Name) and depth > 0 else ()
    set_to = [each.value for each in bindings if each.kind == "assign" and isinstance(each.value, cst.BaseExpression)]
    known = [_items(module, each, depth - 1) for each in set_to]
    if not known or len(known) < len(bindings) or any(each is None for each in known):
        return None
    return [name for each in known for name in each or ()]


def _is_without(porting: Training, name: str) -> bool:
    """Whether Tunix has not the model of a Hub id, neither its family nor, of a family, this member."""
    family = find_family(hub_id=name, extra=[read_family(path) for path in families(porting.packs)])
    return is_known_without(name) if family is None else refusal(family, name) is not None


def _node_of(porting: Training, value: Value) -> cst.BaseExpression | None:
    """The expression in the script that a model is named by."""
    sites = [site for site in (porting.model, porting.trainer) if site is not None]
    given = (argument for site in sites for argument in site.arguments if argument.node is not None)
    return next((each.node for each in given if each.value.code == value.code), None)


def _held(module: Module, node: cst.BaseExpression, depth: int) -> Iterator[tuple[Any, bool]]:
    """The lists and dicts of which an expression is one item, each with whether a loop takes all of them."""
    if depth < 0:
        return
    if isinstance(node, cst.Subscript) or _is_get(node):
        owner = node.value if isinstance(node, cst.Subscript) else node.func.value  # type: ignore[attr-defined]
        found = _value(module, owner)
        if isinstance(found, dict | list | tuple) and _value(module, node) is None:
            yield found, False
        else:
            yield from _held(module, owner, depth - 1)
        return
    for binding in reaching(module, node) if isinstance(node, cst.Name) else ():
        if binding.kind == "assign" and isinstance(binding.value, cst.BaseExpression):
            yield from _held(module, binding.value, depth - 1)
        elif isinstance(binding.node, cst.For):
            yield _value(module, _looped(binding.node.iter)), True
        elif isinstance(binding.node, cst.Param):
            function = next(
                (each for each in module.ancestors(binding.node) if isinstance(each, cst.FunctionDef)), None
            )
            for call in calls_of(module, function) if function is not None else ():
                given = argument_of(module, call, binding.node.name.value)
                if given is not None:
                    yield from _held(module, given, depth - 1)


def _is_get(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "get"


def _has_no_fallback(call: cst.CSTNode) -> bool:
    return isinstance(call, cst.Call) and len(call.args) == 1 and not call.args[0].star


def _looped(node: cst.BaseExpression) -> cst.BaseExpression:
    """`MODELS` of `enumerate(MODELS.items())`."""
    while isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in PASSED_ON and not node.args:
            node = node.func.value
        elif isinstance(node.func, cst.Name) and node.func.value in PASSED_ON and node.args:
            node = node.args[0].value
        else:
            break
    return node


def _value(module: Module, node: cst.BaseExpression) -> Any:
    try:
        return evaluate(module, node)
    except Unknown:
        return None


def _models(held: Any, key: str = "") -> Iterator[str]:
    """The Hub ids in a list or a dict, but for those under a key that names where something is saved."""
    if isinstance(held, str):
        if HUB_ID.fullmatch(held) and not PLACES.search(key):
            yield held
    elif isinstance(held, dict):
        for name, value in held.items():
            yield from _models(name)
            yield from _models(value, str(name).rpartition("/")[2])
    elif isinstance(held, list | tuple | set):
        for value in held:
            yield from _models(value, key)
