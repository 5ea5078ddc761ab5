"""Names that a script reads and nothing binds: the GPU run ends there with a NameError, and so does the port.

print(f"group_by_length: {group_by_length}")     # a parameter that was taken out
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence

from ....text.edit import Edit
from ....text.edits import Spans
from ...script.porting import Porting

RULE = "TP191"
# What Python, notebooks and Databricks give a file.
GIVEN = frozenset(dir(builtins)) | set(
    "__file__ __path__ __builtins__ __annotations__ __class__ __module__ __qualname__ WindowsError display get_ipython"
    " In Out _ __ ___ dbutils spark sc sqlContext displayHTML".split()
)
HIDDEN = re.compile(r"\b(?:exec|builtins|import_module|runpy)\b|\b(?:globals|vars)\(\)|%(?:run|load|pylab|store)")
MAGICS = re.compile(r"%[a-z]\w*([^\"\\\\]*)")  # a cell's `%%capture shown`, in the file's JSON
CAUGHT = {"NameError", "Exception", "BaseException"}
Scopes = tuple[set[str], ...]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# What of a definition is no part of its scope, and what isn't run with it.
OUTSIDE, NOT_RUN = ("decorator_list", "bases", "keywords", "args"), ("annotation", "returns", "type_params")


def say_unbound_names(porting: Porting, edits: Sequence[Edit]) -> None:
    """A warning at the first line that reads such a name, of the lines that stay."""
    module = porting.module
    if not porting.options.active(RULE) or HIDDEN.search(module.text):
        return
    try:
        tree = ast.parse(module.python)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    bound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    bound |= {*_bound_in(tree)} | GIVEN
    if module.notebook is not None:
        if module.notebook.skipped:  # cells that don't parse may bind any name
            return
        bound |= {name for words in MAGICS.findall(module.notebook.raw) for name in re.findall(r"\w+", words)}
    if "*" in bound:
        return
    spans, lines = Spans((edit.start, edit.end) for edit in edits), module.python.splitlines(keepends=True)
    try:
        found = sorted(_unbound(tree, (bound,), (bound,)), key=lambda node: (node.lineno, node.col_offset))
    except RecursionError:
        return
    quoted = {*re.findall(r"(?<=[\"'])\w+(?=[\"'])", module.text)} if found else set[str]()
    said: set[str] = set()
    for node in found:
        if node.id in quoted or node.id in said:
            continue
        column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode()) + 1
        if module.offset(node.lineno, column) in spans:
            continue
        said.add(node.id)
        message = f"{node.id} is bound nowhere: where this runs, the GPU run ends with a NameError, as does the port."
        fix = "Say what it is, or take out what reads it."
        porting.find(RULE, "warning", message, fix, node.lineno, column, False)


def _bound_in(scope: ast.AST) -> Iterator[str]:
    """The names that a scope binds, and its comprehensions; "*" where it takes all of a module's."""
    if isinstance(scope, FUNCTIONS):
        yield from (each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg))
    body: list[ast.AST] | ast.AST = getattr(scope, "body", [])
    pending = [*body] if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif name := getattr(node, "rest", None) or getattr(node, "name", None):
            yield name  # a definition, a handler's exception, a pattern's capture
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += getattr(node, "decorator_list", [])
        else:
            pending += ast.iter_child_nodes(node)


def _unbound(node: ast.AST, bound: Scopes, around: Scopes) -> Iterator[ast.Name]:
    """The names that are read in a scope and bound in none around it: no annotations, nor where a handler catches.

    `bound`: what the scopes around hold; `around`: the same with a class's own names, which its methods don't see, but
    for their decorators and defaults.
    """
    is_scope = isinstance(node, (*FUNCTIONS, ast.ClassDef))
    inside = (*bound, {*_bound_in(node)}) if is_scope else around
    for field, held in ast.iter_fields(node):
        if field in NOT_RUN or (field == "body" and _catches(node)):
            continue
        for each in held if isinstance(held, list) else [held]:
            seen = around if is_scope and field in OUTSIDE else inside
            if isinstance(each, ast.Name):
                if isinstance(each.ctx, ast.Load) and not any(each.id in names for names in seen):
                    yield each
            elif isinstance(each, ast.AST):
                hidden = isinstance(node, ast.ClassDef) or not is_scope
                yield from _unbound(each, bound if hidden else seen, seen)


def _catches(node: ast.AST) -> bool:
    """Whether it's a `try` that goes on behind a name that isn't there."""
    kinds = [handler.type for handler in node.handlers] if isinstance(node, ast.Try) else []
    names = {each.id for kind in kinds if kind is not None for each in ast.walk(kind) if isinstance(each, ast.Name)}
    return None in kinds or bool(names & CAUGHT)
