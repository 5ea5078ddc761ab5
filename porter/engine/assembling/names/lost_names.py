"""A last look at the port: a name whose last binding went must not be used any more."""

from __future__ import annotations

import ast
import builtins
import re
import unicodedata
import warnings
from bisect import bisect_left
from collections.abc import Sequence

import libcst as cst

from ....source.module import Module
from ....source.parsing import parse_text
from ....source.scopes import Binding
from ....text.edit import Edit
from ....text.edits import apply_edits
from ...script.porting import Porting

RULE = "TP190"


def find_lost_names(porting: Porting, edits: Sequence[Edit]) -> None:
    """Findings for names that the source binds and the port would use without binding them."""
    module = porting.module
    kept = _kept_uses(module, sorted((edit.start, edit.end) for edit in edits if edit.end > edit.start))
    written = set(re.findall(r"\w+", " ".join(edit.new for edit in edits)))
    kept = {name: starts for name, starts in kept.items() if starts or name in written}
    if not kept:
        return
    try:
        bound, read = _names_in(apply_edits(module.text, edits))
    except cst.ParserSyntaxError:
        return  # which is said of the whole port
    for name in sorted(kept):
        means = unicodedata.normalize("NFKC", name)  # as Python has it
        # What is written anew stands nowhere in the source: the name's own line is named then.
        for start in (kept[name] or [_first(module, name)]) if means in read and means not in bound else ():
            line, column = module.line_column(start)
            message = f"{name} is used here, and what it stood for is spread over the port."
            porting.find(RULE, "error", message, "Write the value, or keep the object by hand.", line, column)


def _names_in(text: str) -> tuple[set[str], set[str]]:
    """The names that a text binds in any scope, and those that it reads; `cst.ParserSyntaxError` when it is no Python.

    The interpreter's own parser is asked first, which is quick.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parsed = parse_text(text)
        after = Module("", text, parsed[0], parsed=parsed[1])
        normal = {unicodedata.normalize("NFKC", name): name for name in set(re.findall(r"\w+", text))}
        of_scopes = {unicodedata.normalize("NFKC", name) for name in after.bound_names}
        return of_scopes, {means for means, name in normal.items() if after.loads(name)}
    bound: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else read).add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif name := getattr(node, "rest", None) or getattr(node, "name", None):
            bound.add(name)  # a definition, a handler's exception, a pattern's capture
    return bound, read


def _kept_uses(module: Module, spans: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    """By name where what is kept uses it, of the names all of whose bindings the spans (sorted, apart) touch."""
    bindings: dict[str, list[Binding]] = {}
    for scope in module.scopes.values():
        for name, bound in scope.bindings.items():
            bindings.setdefault(name, []).extend(bound)
    found: dict[str, list[int]] = {}
    for name, bound in bindings.items():
        if hasattr(builtins, name) or not all(_touches(spans, *module.span(item.node)) for item in bound):
            continue
        uses = (module.span(use)[0] for use in module.loads(name))
        found[name] = [start for start in uses if not _touches(spans, start, start + 1)]
    return found


def _first(module: Module, name: str) -> int:
    return min(module.span(bound.node)[0] for scope in module.scopes.values() for bound in scope.bindings.get(name, ()))


def _touches(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one of the spans has a place in common with `start:end`."""
    at = bisect_left(spans, (end, end)) - 1
    return at >= 0 and spans[at][1] > start


def find_taken_names(porting: Porting, bound: Sequence[str]) -> None:
    """Findings for names of the port's libraries that the file uses for something of its own."""
    module = porting.module
    for scope in module.scopes.values():
        for name in bound:
            own = [binding for binding in scope.bindings.get(name, ()) if binding.kind != "import"]
            if own:
                line, column = module.location(own[0].node)
                message = f"{name} is a name of this file's own, and of a library that the port uses."
                porting.find(RULE, "error", message, f"Rename your {name}, and port again.", line, column)
