"""Which file starts a training that another file's function does: what it gives is known in the port then."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable

STARTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def starts_itself(text: str) -> bool:
    """Whether a file runs more than definitions: calls at its top, or `if __name__ == "__main__":`."""
    tree = _tree(text)
    return tree is None or any(_runs(node) for node in tree.body)


def starters(trains: re.Pattern[str], text: str, stem: str, others: Iterable[tuple[str, str]]) -> list[str]:
    """Of other files that import this one, by their names with their texts, those that call what trains in it.

    `stem`: what the file is called as a module.
    """
    names = _training_names(trains, text)
    if not names:
        return []
    listed = "|".join(map(re.escape, sorted(names)))
    called = re.compile(rf"(?<![\w.])(?:(?:\w+\.)*{re.escape(stem)}\.)?(?:{listed})\s*\(")
    return [name for name, other in others if called.search(other) and starts_itself(other)]


def _training_names(trains: re.Pattern[str], text: str) -> set[str]:
    """The functions and classes at a file's top that train, themselves or by another of them."""
    tree = _tree(text)
    if tree is None:
        return set()
    parts = {node.name: ast.get_source_segment(text, node) or "" for node in tree.body if isinstance(node, STARTS)}
    found = {name for name, code in parts.items() if trains.search(code)}
    while found:
        called = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(found)))})\s*\(")
        further = {name for name, code in parts.items() if name not in found and called.search(code)}
        if not further:
            break
        found |= further
    return found


def _runs(node: ast.stmt) -> bool:
    """Whether a statement at the top does something that may train: a call for its effect, or a block around one."""
    if isinstance(node, STARTS):
        return False
    if isinstance(node, ast.If | ast.With | ast.Try | ast.For | ast.While):
        parts = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
        return any(_runs(part) for part in parts)
    value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    return isinstance(value, ast.Call | ast.Await)


def _tree(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
