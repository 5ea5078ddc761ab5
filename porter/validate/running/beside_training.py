"""Statements of a notebook that fail before its training and that its training doesn't depend on: they are left out.

A notebook's author looks at data, opens a database, evaluates the base model, and trains some cells further down. What
of that can't run here (a file that is only there) says nothing of the training. The port's are left out where the
source's were, so that a port that fails where its source doesn't is told from it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

KEPT = "left_out.json"
NOTE = (
    "{line} failed ({error}) and was left out, with what follows from it: the notebook's training takes nothing of it"
)
READS = {"print", "display", "len", "type", "repr", "str", "list", "next", "iter", "sorted", "sum", "zip", "enumerate"}
LOOKS = {"head", "describe", "info", "select", "shuffle", "items", "keys", "values", "generate", "decode", "get"}


class LeftOut:
    """What is left out of a notebook's `statements`; `folder` is shared by both sides, of which one is the `source`."""

    def __init__(self, statements: Sequence[ast.stmt], folder: Path, source: bool, note: Callable[[str], None]) -> None:
        self._statements, self._file, self._source, self._note = statements, folder / KEPT, source, note
        self._names: set[str] = set()
        said = json.loads(self._file.read_text("utf-8")) if self._file.is_file() and not source else []
        self._known: set[str] = set(said)
        self._texts: list[str] = []

    def takes(self, place: int, error: Exception) -> bool:
        """Whether the statement at `place`, which ended with `error`, can be left out; it is told then."""
        statement = self._statements[place]
        text = ast.unparse(statement)
        follows = isinstance(error, NameError) and getattr(error, "name", None) in self._names
        if not follows and not self._source and text not in self._known:
            return False
        if not is_beside(self._statements, place):
            return False
        self._names |= set(bound(statement))
        self._texts.append(text)
        if self._source:
            self._file.write_text(json.dumps(self._texts), encoding="utf-8")
        if not follows:
            said = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            self._note(NOTE.format(line=repr(text.splitlines()[0][:80]), error=said))
        return True


def is_beside(statements: Sequence[ast.stmt], place: int) -> bool:
    """Whether a training follows the statement at `place`, and takes nothing that it binds or changes."""
    last = max((at for at, each in enumerate(statements) if _trains(each)), default=-1)
    if place >= last:
        return False
    needed = {name for each in statements[place + 1 : last + 1] if _trains(each) for name in _loaded(each)}
    for each in reversed(statements[place + 1 : last]):
        names = set(bound(each))
        if not (names & needed or set(_changed(each)) & needed):
            continue
        needed |= set(_loaded(each))
        if isinstance(each, ast.Assign | ast.FunctionDef | ast.ClassDef):
            needed -= names - set(_loaded(each))
    failed = statements[place]
    return not (set(bound(failed)) | set(_changed(failed))) & needed


def _trains(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("train", "backward")
        for node in ast.walk(statement)
    )


def _loaded(statement: ast.AST) -> Iterator[str]:
    """Names of the module's that a statement reads: those of functions and comprehensions of its own are none."""
    own: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            own |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and _is_stored(part)}
        elif isinstance(node, ast.comprehension):
            own |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    yield from (node.id for node in names if not _is_stored(node) and node.id not in own)


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module gives a value."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def _changed(statement: ast.stmt) -> Iterator[str]:
    """Names whose objects a statement may change: by an attribute or an item, a method, a call that is given them."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    each_of = {
        name: set(_loaded(node.iter))
        for node in ast.walk(statement)
        if isinstance(node, ast.For)
        for name in (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
    }
    for node in ast.walk(statement):
        found: list[str] = []
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found = [_root(node)]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            name = call.func.attr if isinstance(call.func, ast.Attribute) else _root(call.func)
            if name not in READS | LOOKS:
                given = [*call.args, *(word.value for word in call.keywords)]
                found = [_root(call.func), *(part.id for part in given if isinstance(part, ast.Name))]
        for name in found:
            yield name
            yield from each_of.get(name, ())


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
