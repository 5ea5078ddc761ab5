"""What the syntax tree of a project's module assigns and defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

MODULES = 64  # of a project, whose trees are kept: each value that is asked for looks through all of them
ADDS = ("add_argument", "option")  # the ends of the functions that add an argument of a command line


@lru_cache(MODULES)
def tree_of(text: str) -> ast.Module:
    """The tree of a module's text, which nobody may change."""
    return ast.parse(text)


@lru_cache(MODULES)
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All of a module, which many ask for in turn."""
    return [*ast.walk(tree)]


@lru_cache(MODULES)
def imports_of(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a module, wherever they stand in it."""
    return [node for node in nodes_of(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def names_imported(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The names that an import binds, each with its path: `..configs.RATE` of `from ..configs import RATE`."""
    home = "." * node.level + (f"{node.module}." if node.module else "") if isinstance(node, ast.ImportFrom) else ""
    return [(alias.asname or alias.name, f"{home}{alias.name}") for alias in node.names]


@lru_cache(MODULES)
def declarations_of(tree: ast.Module) -> list[ast.Call | ast.ClassDef]:
    """Where a module may say what a setting usually is: its classes, and the calls that add arguments."""
    found: list[ast.Call | ast.ClassDef] = []
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.Call) and last_name(node.func).endswith(ADDS)):
            found.append(node)
    return found


@lru_cache(MODULES)
def keywords_by_name(tree: ast.Module) -> dict[str, list[ast.keyword]]:
    """The keywords that the calls of each plain name give, together."""
    found: dict[str, list[ast.keyword]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.setdefault(node.func.id, []).extend(node.keywords)
    return found


def set_to_in(tree: ast.Module, name: str) -> list[ast.expr]:
    """What assignments of a module set a name to, the same expression counted once."""
    return [*{ast.dump(value): value for value in _values_by_name(tree).get(name, ())}.values()]


@lru_cache(MODULES)
def _values_by_name(tree: ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for name, value in assigned_in(tree):
        found.setdefault(name, []).append(value)
    return found


def unpacked_in(tree: ast.Module, name: str) -> list[ast.expr]:
    """What a name gets of what assignments of a module take apart, the same expression counted once: `load()[0]` of
    `name, rate = load()`."""
    return [*{ast.dump(part): part for part in _unpacked(tree).get(name, ())}.values()]


@lru_cache(MODULES)
def _unpacked(tree: ast.Module) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes_of(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(node, ast.Assign) and isinstance(target, ast.Tuple | ast.List):
                for name, part in _parts(target.elts, node.value):
                    found.setdefault(name, []).append(part)
    return found


def _parts(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names that a value is taken apart into, with the part of each; none of the rest, `*others`."""
    rest = next((place for place, each in enumerate(targets) if isinstance(each, ast.Starred)), len(targets))
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    written = len(parts) == len(targets) and not any(isinstance(part, ast.Starred) for part in parts)
    for place, target in enumerate(targets):
        index = ast.Constant(place if place < rest else place - len(targets))
        part = parts[place] if written else ast.Subscript(value, index, ast.Load())
        if isinstance(target, ast.Name):
            yield target.id, part
        elif isinstance(target, ast.Tuple | ast.List):
            yield from _parts(target.elts, part)


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


@lru_cache(256)
def fields_of(node: ast.ClassDef) -> list[tuple[str, ast.expr]]:
    """Attributes of a class and what they hold at first: of its body, and of `self` in its constructor."""
    return [*_fields(node)]


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
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


@lru_cache(256)
def held_by_objects(node: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """What the methods of a class set attributes of `self` to."""
    found: dict[str, list[ast.expr]] = {}
    for part in (each for each in ast.walk(node) if isinstance(each, ast.Assign)):
        for target in part.targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                found.setdefault(target.attr, []).append(part.value)
    return found


@lru_cache(MODULES)
def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions at the top of a module, and what stands in them; of one name the last."""
    return {node.name: node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef)}


def has_class(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in declarations_of(tree))


@lru_cache(256)
def returned_by(function: ast.FunctionDef) -> ast.expr | None:
    """The one expression that a function returns."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return values[0] if len({ast.dump(value) for value in values}) == 1 else None


def items_set_in(tree: ast.Module, name: str, key: object) -> list[ast.expr]:
    """What assignments of a module set an item of a name to: `CONFIG["model"] = "..."`."""
    return _items_set(tree).get((name, key), [])


@lru_cache(MODULES)
def _items_set(tree: ast.Module) -> dict[tuple[str, object], list[ast.expr]]:
    found: dict[tuple[str, object], list[ast.expr]] = {}
    for node in nodes_of(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                if isinstance(target.slice, ast.Constant) and isinstance(node, ast.Assign):
                    found.setdefault((target.value.id, target.slice.value), []).append(node.value)
    return found
