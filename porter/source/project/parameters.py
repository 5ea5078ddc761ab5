"""What the parameters of a module's functions hold: what its calls give them, and their defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from .trees import nodes_of

MOST_CALLS = 8  # of a function, that are followed to what they give
Function = ast.FunctionDef | ast.AsyncFunctionDef


def defaults_of(tree: ast.Module, name: str) -> list[ast.expr]:
    """The defaults of the parameters of that name."""
    return [default for parameter, default in _parameters(tree) if parameter == name]


@lru_cache(256)
def given_to(tree: ast.Module, name: str) -> list[ast.expr]:
    """What the calls of a module give the parameter `name` of its functions, methods and classes; its default where a
    call leaves it out.

    Nothing where a call gives it in a way that can't be followed, or there are too many.
    """
    holders = dict(_holders(tree, name))
    found: list[ast.expr] = []
    for node in nodes_of(tree):
        called = _called(node)
        if not isinstance(node, ast.Call) or called not in holders:
            continue
        place, default = holders[called]
        words = [word.value for word in node.keywords if word.arg == name]
        if any(isinstance(each, ast.Starred) for each in node.args) or any(word.arg is None for word in node.keywords):
            return []
        given = words or node.args[place : place + 1] or ([default] if default is not None else [])
        if not given:
            return []
        found += given
    return found if len(found) <= MOST_CALLS else []


def _called(node: ast.AST) -> str:
    """The name by which a call finds a function: `train(...)`, `.train` of `runner.train(...)`."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return f".{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def _holders(tree: ast.Module, name: str) -> Iterator[tuple[str, tuple[int, ast.expr | None]]]:
    """How calls name the functions with that parameter: its place in them, and its default."""
    methods = {id(inner): node for node in nodes_of(tree) if isinstance(node, ast.ClassDef) for inner in node.body}
    for node in nodes_of(tree):
        if not isinstance(node, Function):
            continue
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        default = dict(_of_function(node)).get(name)
        if name not in names and name not in [each.arg for each in node.args.kwonlyargs]:
            continue
        place = names.index(name) if name in names else len(names)
        owner = methods.get(id(node))
        if owner is None:
            yield node.name, (place, default)
        else:
            place -= names[:1] in (["self"], ["cls"])
            yield owner.name if node.name == "__init__" else f".{node.name}", (place, default)


def _parameters(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes_of(tree):
        if isinstance(node, Function):
            yield from _of_function(node)


def _of_function(node: Function) -> Iterator[tuple[str, ast.expr]]:
    plain = [*node.args.posonlyargs, *node.args.args]
    behind = plain[len(plain) - len(node.args.defaults) :]
    yield from ((each.arg, default) for each, default in zip(behind, node.args.defaults, strict=True))
    for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            yield each.arg, default
