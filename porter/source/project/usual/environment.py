"""Variables of the environment that a module reads, and those that it sets."""

from __future__ import annotations

import ast
from functools import lru_cache

from .trees import MODULES, nodes_of

READS = ("os.environ.get", "os.getenv", "environ.get", "getenv", "os.environ.setdefault", "environ.setdefault")
HOLDS = ("os.environ", "environ")


def variable_read(node: ast.expr) -> tuple[str, ast.expr | None] | None:
    """The variable of the environment that an expression reads, and what it is where that isn't set."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in HOLDS:
        name, default = node.slice, None
    elif isinstance(node, ast.Call) and (asked := asked_by(node)) is not None:
        name, default = asked
    else:
        return None
    return (name.value, default) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def asked_by(call: ast.Call) -> tuple[ast.expr, ast.expr | None] | None:
    """The name of the variable that a call asks the environment for, and what it is where that isn't set."""
    if not call.args or ast.unparse(call.func) not in READS:
        return None
    default = call.args[1] if len(call.args) > 1 else None
    return call.args[0], next((word.value for word in call.keywords if word.arg == "default"), default)


def variable_set_in(tree: ast.Module, name: str) -> list[ast.expr]:
    """What assignments of a module set a variable of the environment to, the same expression counted once."""
    return [*{ast.dump(value): value for held, value in _set_in(tree) if held == name}.values()]


@lru_cache(MODULES)
def _set_in(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    found = []
    for node in nodes_of(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                if ast.unparse(target.value) in HOLDS:
                    found.append((str(target.slice.value), node.value))
    return found
