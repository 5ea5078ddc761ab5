"""A script's syntax tree, of which several ask one thing each, and parts of it."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=1)
def syntax_tree(text: str) -> ast.Module:
    """The text as Python's own parser reads it. SyntaxError as it raises it."""
    return ast.parse(text)


def called_in(body: list[ast.stmt]) -> set[str]:
    """The code of what statements call."""
    return {ast.unparse(part.func) for one in body for part in ast.walk(one) if isinstance(part, ast.Call)}


def entries_of(value: ast.expr) -> list[tuple[str, int]] | None:
    """The keys of a `dict(...)` call or a dict literal and their lines; None for anything else."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict" and not value.args:
        return [(word.arg, word.value.lineno) for word in value.keywords if word.arg]
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "dataclasses.field"):
        made = [word.value.body for word in value.keywords if isinstance(word.value, ast.Lambda)]
        return entries_of(made[0]) if made else None
    if isinstance(value, ast.Dict):
        keys = [one for one in value.keys if isinstance(one, ast.Constant)]
        return [(one.value, one.lineno) for one in keys if isinstance(one.value, str)]
    return None
