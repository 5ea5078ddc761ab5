"""Whether an expression surely is a DataFrame or a column of one, and the places that a rule may change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import (
    Binding,
    Module,
    binding_origins,
    bound_value,
    index_of,
    is_dead,
    reaching,
    returned,
    text_index,
)

Node = TypeVar("Node", bound=cst.CSTNode)
MAKES = re.compile(
    r"pandas\.(?:read_(?:csv|json|parquet|excel|table|feather|pickle|sql\w*|orc|html)|json_normalize|concat|merge"
    r"|DataFrame(?:\.from_\w+)?)"
)
# Methods of a frame that give one back.
CHAINS = frozenset(
    """
    append applymap assign astype copy drop dropna drop_duplicates explode fillna filter head join map merge query
    rename replace
    reset_index sample select_dtypes set_index sort_index sort_values tail
    """.split()
)
# Methods of a column that give one back.
OF_COLUMN = frozenset("apply astype copy dropna fillna head map replace sample sort_values tail unique".split())
MASKS = frozenset("isin notna isna isnull notnull duplicated between contains startswith endswith".split())


def free_nodes(porting: Porting, kind: type[Node]) -> Iterator[Node]:
    """The nodes of a kind that run, and that no other rule has taken."""
    module = porting.module
    for node in list(module.parents):
        if isinstance(node, kind) and not porting.covered(module.span(node)[0]) and not is_dead(module, node):
            yield node


def is_frame(module: Module, node: cst.BaseExpression, seen: frozenset[Binding] = frozenset()) -> bool:
    """Whether an expression surely is a DataFrame."""
    match node:
        case cst.Name():
            bindings = reaching(module, node)
            return bool(bindings) and all(_is_bound(module, binding, seen) for binding in bindings)
        case cst.Subscript(value=held):
            return _selects_rows(module, node) and is_frame(module, held, seen)
        case cst.Call():
            return _is_made(module, node, seen)
    return False


def is_column(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression surely is a column of a DataFrame, `frame["text"]`, also through its methods."""
    match node:
        case cst.Subscript(value=held):
            return text_index(node) is not None and is_frame(module, held)
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name(name))):
            return name in OF_COLUMN and is_column(module, held)
        case cst.Name():
            bindings = reaching(module, node)
            values = [next(binding_origins(module, binding), None) for binding in bindings]
            return bool(values) and all(isinstance(each, cst.Subscript) and is_column(module, each) for each in values)
    return False


def _is_bound(module: Module, binding: Binding, seen: frozenset[Binding]) -> bool:
    if binding in seen:
        return True
    if isinstance(binding.node, cst.Param) and binding.node.annotation is not None:
        return module.qualified(binding.node.annotation.annotation) == "pandas.DataFrame"
    value = bound_value(module, binding)
    return value is not None and is_frame(module, value, seen | {binding})


def _is_made(module: Module, call: cst.Call, seen: frozenset[Binding]) -> bool:
    function = module.callees.get(call)
    if function is not None and function.name.value != "__init__":
        values = returned(module, function)
        return bool(values) and all(is_frame(module, value, seen) for value in values)
    name = module.qualified(call.func) or ""
    if MAKES.fullmatch(name) is not None:
        return not any(
            argument.keyword and argument.keyword.value in ("chunksize", "iterator") for argument in call.args
        )
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    return method == "to_pandas" or (method in CHAINS and is_frame(module, call.func.value, seen))


def _selects_rows(module: Module, node: cst.Subscript) -> bool:
    """Whether an index gives rows or several columns: a mask, a slice, a list of names."""
    if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice):
        return True
    match index_of(node):
        case cst.Comparison() | cst.List() | cst.UnaryOperation(operator=cst.BitInvert()):
            return True
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr()):
            return True
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            return name in MASKS
    return False


def place_index(node: cst.Subscript) -> cst.BaseExpression | None:
    """The whole number that something is indexed by, `row[0]` or `row[-1]`."""
    value = index_of(node)
    inner = value.expression if isinstance(value, cst.UnaryOperation) else value
    return value if isinstance(inner, cst.Integer) else None
