"""What the syntax tree of a project's module assigns and defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


def set_to_in(tree: ast.Module, name: str) -> list[ast.expr]:
    """What assignments of a module set a name to, the same expression counted once."""
    return [*{ast.dump(value): value for target, value in assigned_in(tree) if target == name}.values()]


@lru_cache(16)
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All of a module, which many ask for in turn."""
    return [*ast.walk(tree)]


def last_name(node: ast.expr) -> str:
    """`add_argument` of `parser.add_argument`; "" of what is neither a name nor an attribute."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def assigned_in(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names of a module that are assigned to, with what they are."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def has_field(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has a field without a default: `name: str`."""
    bare = [part.target for part in node.body if isinstance(part, ast.AnnAssign) and part.value is None]
    return any(isinstance(target, ast.Name) and target.id == name for target in bare)


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Attributes of a class and what they hold at first: of its body, and of `self` in its constructor."""
    for part in ast.walk(node):
        if isinstance(part, ast.AnnAssign | ast.Assign) and part.value is not None:
            target = part.target if isinstance(part, ast.AnnAssign) else part.targets[0]
            value = part.value
            if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
                value = next((word.value for word in value.keywords if word.arg == "default"), value)
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr, value
