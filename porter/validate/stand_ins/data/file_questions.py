"""Whether a script that asks for a file ends when it isn't there: then it is there, as one that is made up.

`if not path.exists(): raise`, `assert os.path.isfile(name)`; `if path.exists(): return path` above a `raise`; and the
first of several places that has it, without which the script leaves further down.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

Blocks = list[tuple[ast.AST, Sequence[ast.stmt], int]]
LEAVING = ("exit", "quit", "sys.exit", "os._exit", "parser.error")


def ends_without(tree: ast.AST, line: int) -> bool:
    """Whether the script gives up when the file that it asks for in this line isn't there."""
    path = _blocks(tree, line)
    if not path:
        return False
    _, body, index = path[-1]
    asking = body[index]
    if isinstance(asking, ast.Assert):
        return not _denies(asking.test)
    if isinstance(asking, ast.If) and _within(asking.test, line):
        if any(isinstance(part, ast.Not) for part in ast.walk(asking.test)):
            return leaves(asking.body)
        return leaves(asking.orelse) or _missed(asking, path)
    return _tested_below(_bound([asking]), path)


def ends_without_folder(tree: ast.AST, line: int) -> bool:
    """As `ends_without`, of a folder: a function that returns without it may have looked for what needn't be there.

    It gives up where it says so first: `print("Run train_sft.py first"); return`.
    """
    path = _blocks(tree, line)
    if not path:
        return False
    _, body, index = path[-1]
    asking = body[index]
    if not isinstance(asking, ast.If):
        return isinstance(asking, ast.Assert) and not _denies(asking.test)
    if not _denies(asking.test):
        return False
    *said, last = asking.body
    says = any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in said)
    gives_up = isinstance(last, ast.Return) and last.value is None and says
    return gives_up or any(isinstance(node, ast.Raise) or _exits(node) for node in asking.body)


def _denies(test: ast.expr) -> bool:
    """`not path.exists()`, also as the last part of several: `if name and not Path(name).exists()`; and where one of
    several that are missing is enough: `if not model.exists() or not tokenizer.exists()`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return _denies(test.values[-1])
    if isinstance(test, ast.BoolOp):
        return all(_denies(value) for value in test.values)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether the script, or the function, ends in these lines."""
    return any(isinstance(node, ast.Raise | ast.Return) for node in body) or any(_exits(node) for node in body)


def _missed(asking: ast.If, path: Blocks) -> bool:
    """Whether the script ends where none of what it looked for was there: behind the search, or behind its loop."""
    goes = asking.body[-1]
    if isinstance(goes, ast.Return):
        return _raises_below(path)
    if isinstance(goes, ast.Break):
        loop = next((node for node, *_ in reversed(path) if isinstance(node, ast.For | ast.While)), None)
        if loop is not None and leaves(loop.orelse):
            return True
    return _tested_below(_bound(asking.body) - _bound(asking.orelse), path)


def _raises_below(path: Blocks) -> bool:
    """Whether what follows ends in a raise or an exit before it ends well."""
    for node, body, index in reversed(path):
        for later in body[index + 1 :]:
            if isinstance(later, ast.Return):
                return False
            if isinstance(later, ast.Raise) or (isinstance(later, ast.Expr) and _exits(later)):
                return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            return False
    return False


def _tested_below(names: set[str], path: Blocks) -> bool:
    """Whether the script ends further down where one of `names`, which hold what was found, holds nothing."""
    for node, body, index in reversed(path):
        for later in body[index + 1 :]:
            if isinstance(later, ast.If | ast.Assert):
                asked = {part.id for part in ast.walk(later.test) if isinstance(part, ast.Name)} & names
                if asked and (isinstance(later, ast.Assert) or _without(later)):
                    return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            return False
    return False


def _without(test: ast.If) -> bool:
    """`if not path: raise`, `if path is None: raise`, `if len(files) == 0: sys.exit()`."""
    asked = test.test
    nothing = (isinstance(asked, ast.UnaryOp) and isinstance(asked.op, ast.Not)) or (
        isinstance(asked, ast.Compare)
        and isinstance(asked.ops[0], ast.Is | ast.Eq)
        and isinstance(asked.comparators[0], ast.Constant)
        and asked.comparators[0].value in (None, 0, "", False)
    )
    return leaves(test.body) if nothing else False


def _bound(body: Sequence[ast.stmt]) -> set[str]:
    """The names that these lines give a value."""
    return {
        part.id
        for node in body
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def _exits(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and ast.unparse(part.func) in LEAVING for part in ast.walk(node))


def _within(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _blocks(tree: ast.AST, line: int) -> Blocks:
    """The blocks around a line, outermost first: what each belongs to, its statements, and which of them it is in."""
    found: Blocks = []
    node = tree
    while True:
        inner = next(_at(node, line), None)
        if inner is None:
            return found
        found.append((node, *inner))
        node = inner[0][inner[1]]


def _at(node: ast.AST, line: int) -> Iterator[tuple[Sequence[ast.stmt], int]]:
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        body: Any = getattr(node, name, None)
        for index, part in enumerate(body if isinstance(body, list) else ()):
            first = getattr(part, "lineno", None) or part.pattern.lineno
            last = part.end_lineno if hasattr(part, "end_lineno") else part.body[-1].end_lineno
            if first <= line <= (last or first):
                yield body, index
