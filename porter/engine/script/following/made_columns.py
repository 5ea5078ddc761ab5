"""The columns of rows that a script makes anew: `rows.map(to_text, remove_columns=rows.column_names)`."""

from __future__ import annotations

import libcst as cst

from ....source.calls import returned
from ....source.module import Module
from .reaching import reaching

KEEPS = ("select", "shuffle", "filter", "train_test_split", "shard", "flatten_indices")
MOST = 20  # names and calls that a dataset is followed through


def made_columns(module: Module, rows: cst.CSTNode | None) -> frozenset[str] | None:
    """The columns that a function of the script returns for each row, the others taken away; None where it isn't seen
    that it is that function, or what it returns."""
    for _ in range(MOST):
        if isinstance(rows, cst.Name):
            rows = _held(module, rows)
        elif isinstance(rows, cst.Subscript):
            rows = rows.value
        elif isinstance(rows, cst.Call) and isinstance(rows.func, cst.Attribute):
            if rows.func.attr.value == "map":
                return _mapped(module, rows)
            rows = rows.func.value if rows.func.attr.value in KEEPS else None
        elif isinstance(rows, cst.Call) and (function := module.callees.get(rows)) is not None:
            values = returned(module, function)
            rows = values[0] if len(values) == 1 else None
        else:
            return None
    return None


def _held(module: Module, name: cst.Name) -> cst.CSTNode | None:
    """What a name surely holds where it is read: the value of its one assignment, or a function of the script."""
    found = reaching(module, name)
    if len(found) != 1 or found[0].conditional or found[0].kind not in ("assign", "definition"):
        return None
    return found[0].node if found[0].kind == "definition" else found[0].value


def _mapped(module: Module, call: cst.Call) -> frozenset[str] | None:
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if "remove_columns" not in named:
        return None
    function: cst.CSTNode | None = named.get("function", call.args[0].value if call.args else None)
    function = _held(module, function) if isinstance(function, cst.Name) else function
    values: list[cst.BaseExpression] = []
    if isinstance(function, cst.Lambda):
        values = [function.body]
    elif isinstance(function, cst.FunctionDef):
        values = returned(module, function)
    called = module.callees.get(values[0]) if len(values) == 1 and isinstance(values[0], cst.Call) else None
    keys = [_keys(value) for value in (values if called is None else returned(module, called))]
    return keys[0] if keys and all(each == keys[0] for each in keys) else None


def _keys(value: cst.BaseExpression) -> frozenset[str] | None:
    """The keys of a dictionary that is written out."""
    if not isinstance(value, cst.Dict):
        return None
    keys = [element.key if isinstance(element, cst.DictElement) else None for element in value.elements]
    texts = [key.raw_value for key in keys if isinstance(key, cst.SimpleString)]
    return frozenset(texts) if len(texts) == len(keys) else None
