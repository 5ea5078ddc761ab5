"""Expressions of the source → `Value`s: known now, or decided at run time, as they were on the GPU."""

from __future__ import annotations

import libcst as cst

from ..recipe import Origin, Value, literal_code
from .conditions import decided
from .module import Module
from .values import Unknown, evaluate

# Nodes whose span leaves out the parentheses that they need as an argument.
BARE = (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield)


def read_value(module: Module, node: cst.BaseExpression, rule: str = "") -> Value:
    """The Value of an expression at its place; `code` is its literal when known, else its text as on the GPU."""
    line, column = module.location(node)
    origin = Origin(module.path, line, column, rule)
    text = module.code(node)
    if isinstance(node, BARE) and node.lpar:
        text = f"({text})"
    try:
        known = evaluate(module, node)
    except Unknown:
        code = text if isinstance(node, BARE) else decided(module, node)
        return Value("expression", code, origin, text if code == module.code(node) else code)
    return Value("literal", literal_code(known), origin, text)
