"""What the parameters of a module's functions hold: what its calls give them, and their defaults."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from .trees import nodes_of

MOST_CALLS = 8  # of a function, that are followed to what they give
Function = ast.FunctionDef | ast.AsyncFunctionDef


def defaults_of(tree: ast.Module, name: str) -> list[ast.expr]:
    """The defaults of the parameters of that name, the same expression counted once."""
    return [*{ast.dump(default): default for parameter, default in _parameters(tree) if parameter == name}.values()]


@lru_cache(256)
def given_to(tree: ast.Module, name: str) -> list[ast.expr]:
    """What the calls of a module give the parameter `name` of its functions, methods and classes; its default where a
    call leaves it out.

    Nothing where a call gives it in a way that can't be followed, or there are too many. A function that hands its own
    parameter of that name on says nothing new: what its calls give it is among the others.
    """
    found: list[ast.expr] = []
    own = _inside_of_holders(tree, name)
    for node, place, default in _calls_of_holders(tree, name):
        if _spreads(node):
            return []
        words = [word.value for word in node.keywords if word.arg == name]
        given = words or node.args[place : place + 1] or ([default] if default is not None else [])
        if not given:
            return []
        found += [each for each in given if id(each) not in own or not isinstance(each, ast.Name) or each.id != name]
    return found if len(found) <= MOST_CALLS else []


def is_spread(tree: ast.Module, name: str) -> bool:
    """Whether a call of a function with the parameter `name` gives what a dictionary holds: `train(**vars(args))`."""
    return any(_spreads(node) for node, _, _ in _calls_of_holders(tree, name))


def _spreads(node: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in node.args) or any(word.arg is None for word in node.keywords)


def _calls_of_holders(tree: ast.Module, name: str) -> Iterator[tuple[ast.Call, int, ast.expr | None]]:
    """The calls of functions with that parameter, its place in each and its default."""
    holders = dict(_holders(tree, name))
    for node in nodes_of(tree) if holders else ():
        called = _called(node)
        if isinstance(node, ast.Call) and called in holders:
            yield node, *holders[called]


def _inside_of_holders(tree: ast.Module, name: str) -> set[int]:
    """The nodes in the functions that have a parameter of that name."""
    functions = [node for node in nodes_of(tree) if isinstance(node, Function)]
    holders = (node for node in functions if any(each.arg == name for each in _arguments(node)))
    return {id(inner) for node in holders for inner in ast.walk(node)}


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
        if name not in [each.arg for each in _arguments(node)]:
            continue
        place = names.index(name) if name in names else len(names)
        owner = methods.get(id(node))
        if owner is None:
            yield node.name, (place, default)
        else:
            place -= names[:1] in (["self"], ["cls"])
            yield owner.name if node.name == "__init__" else f".{node.name}", (place, default)


def _arguments(node: Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


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
