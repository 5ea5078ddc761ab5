"""The door for one file of a project: with the modules that it imports, and as the script that calls it has it."""

from __future__ import annotations

import ast
from pathlib import Path
from time import process_time

from ..errors import InputError
from ..port import Options, Port
from ..safety.limits import within_budget
from ..source.parsing import read_module
from .beside.with_modules import port_with_modules
from .callers import port_by_caller

LEAST, MOST = 1.0, 30.0  # seconds of the processor in which callers may be read


def port_script(path: Path, options: Options | None = None) -> Port:
    """Port one file, with what it imports of its project unless that is worse; a module that only defines functions, as
    its caller has it, where more is left to do without. InputError as `port_file`."""
    given, start = options or Options(), process_time()
    port = within_budget(lambda: port_with_modules(path, given), path, given.budget)
    left = min(given.budget - (process_time() - start), MOST)
    if port.status != "partial" or port.notebook is not None or left < LEAST:
        return port
    try:
        found = within_budget(lambda: port_by_caller(path, given) if _only_defines(path) else None, path, left)
    except InputError:  # its callers take more than the time that is left
        return port
    return found or port


def _only_defines(path: Path) -> bool:
    """Whether a file runs nothing of its own: imports, definitions and settings alone. Not one with a notebook's lines
    (`!pip install trl`), nor with what this Python can't parse."""
    try:
        body = ast.parse(read_module(path).text).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    values = (node.value for node in body if isinstance(node, ast.Expr))
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.Expr)
    return all(isinstance(node, kinds) for node in body) and all(isinstance(value, ast.Constant) for value in values)
