"""Functions of a script that print or log what they are given, and do nothing else:

def log_print(*args, **kwargs):
    print(*args, **kwargs)
    with open(LOG_FILE, "a") as file:
        print(*args, **kwargs, file=file)
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator

import libcst as cst

from ....source.module import Module
from ....source.scopes import inside
from ..sites import is_of_gpu_library

WRITES = frozenset("print info debug warning warn error critical log write writelines flush".split())
MADE = "functions that only print"  # of `Module.memory`


def only_logs(module: Module, call: cst.BaseExpression) -> bool:
    """Whether a call is of such a function, which gives nothing back."""
    function = module.callees.get(call) if isinstance(call, cst.Call) else None
    if function is None:
        return False
    known: dict[cst.FunctionDef, bool] = module.memory.setdefault(MADE, {})
    if function not in known:
        known[function] = False  # what calls itself
        lines = [*_lines(function.body)]
        says = any(isinstance(line, cst.Expr) and isinstance(line.value, cst.Call) for line in lines)
        plain = not function.decorators and all(_is_plain(module, line) for line in lines)
        calls = (node for node in inside(function.body) if isinstance(node, cst.Call))
        known[function] = says and plain and all(_only_tells(module, each) for each in calls)
    return known[function]


def _lines(block: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """The statements of a block, those of `with` and `if` blocks in it among them."""
    for statement in block.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        elif isinstance(statement, cst.With) or (isinstance(statement, cst.If) and statement.orelse is None):
            yield from _lines(statement.body)
        else:
            yield statement


def _is_plain(module: Module, line: cst.CSTNode) -> bool:
    """Whether a statement writes, or makes a variable for that."""
    if isinstance(line, cst.Assign):
        return all(isinstance(target.target, cst.Name) for target in line.targets)
    if isinstance(line, cst.Expr):
        called = module.code(line.value.func) if isinstance(line.value, cst.Call) else ""
        return isinstance(line.value, cst.BaseString) or called.rsplit(".", 1)[-1] in WRITES
    return isinstance(line, cst.Pass) or (isinstance(line, cst.Return) and line.value is None)


def _only_tells(module: Module, call: cst.Call) -> bool:
    """Whether a call writes, or gives what can be written and does nothing to the script's own objects: of Python, of
    its libraries and of a GPU's, and methods of texts and of what such a call gives."""
    func, name = call.func, module.qualified(call.func)
    if isinstance(func, cst.Attribute) and (func.attr.value in WRITES or hasattr(str, func.attr.value)):
        return True
    if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Call):
        return _only_tells(module, func.value)
    if name is not None:
        return name.partition(".")[0] in sys.stdlib_module_names or is_of_gpu_library(module, func)
    return isinstance(func, cst.Name) and hasattr(builtins, func.value) and module.meaning(func) is None
