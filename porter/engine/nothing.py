"""Configs that a function of the file makes by condition: `if not args.quantize: return None`."""

from __future__ import annotations

import libcst as cst

from ..source.calls import function_around
from ..source.module import Module
from .flow import origins


def may_be_none(module: Module, node: cst.BaseExpression | None) -> bool:
    """Whether what `node` stands for comes from a function that may give None instead."""
    made = (module.callees.get(value) for value in origins(module, node) if isinstance(value, cst.Call))
    return any(function is not None and _gives_none(module, function) for function in made)


def _gives_none(module: Module, function: cst.FunctionDef) -> bool:
    if function.name.value == "__init__":
        return False
    returns = (each for each in module.parents if isinstance(each, cst.Return))
    own = [each.value for each in returns if function_around(module, each) is function]
    bare = any(value is None or (isinstance(value, cst.Name) and value.value == "None") for value in own)
    return bare or not _ends(function.body)


def _ends(block: cst.CSTNode) -> bool:
    """Whether a block surely returns or raises at its end."""
    body = block.body if isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite) else ()
    last = body[-1] if body else None
    while isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    match last:
        case cst.Return() | cst.Raise():
            return True
        case cst.If(orelse=cst.If() | cst.Else() as other):
            return _ends(last.body) and _ends(other.body if isinstance(other, cst.Else) else cst.IndentedBlock([other]))
        case cst.With():
            return _ends(last.body)
        case cst.Try():
            return _ends(last.body) and all(_ends(handler.body) for handler in last.handlers)
    return False
