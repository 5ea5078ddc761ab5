"""Places in a row of a DataFrame, which pandas 3 takes for labels: `frame.iloc[0][3]`.

What it does: `frame.iloc[0][3]` becomes `frame.iloc[0].iloc[3]`, and `row[0]` of `for _, row in frame.iterrows():`
becomes `row.iloc[0]`. A warning where a whole number asks for one of `value_counts()`, whose labels are the values.
Why: pandas 2 took a whole number for a place where the labels are texts; pandas 3 ends with a KeyError.
Example: `print(frame.iloc[0][3])`
Use instead: `print(frame.iloc[0].iloc[3])`
Safety: exact for columns with names; so it is for those that pandas has numbered, `header=None`, but for negative
numbers.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, index_of

from ._frames import free_nodes, is_column, is_frame, place_index
from ._today import may_be_older

ID = "TP534"
REASON = "pandas 3 takes a number for a label"


@step(Phase.NAME)
def count_places(porting: Porting) -> None:
    """A place in a row is asked for as such."""
    module = porting.module
    if not may_be_older(porting):
        return
    for node in free_nodes(porting, cst.Subscript):
        if place_index(node) is None:
            continue
        if _is_row(module, node.value):
            after = module.span(node.value)[1]
            porting.edit(after, after, ".iloc", ID, REASON)
        elif _counts_values(module, node.value):
            message = f"{module.code(node)}: pandas 3 takes the number for a value that was counted, not for a place."
            fix = f"Write {module.code(node.value)}.iloc[...] if a place is meant."
            porting.find(ID, "warning", message, fix, *module.location(node))


def _is_row(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression is a row: `frame.iloc[0]`, or the second of what `frame.iterrows()` gives."""
    match node:
        case cst.Subscript(value=cst.Attribute(value=held, attr=cst.Name("iloc"))):
            return _is_one(node) and is_frame(module, held)
        case cst.Name():
            found = module.meaning(node)
            bindings = found[1] if found is not None else ()
            return bool(bindings) and all(_is_iterated(module, each.node, node.value) for each in bindings)
    return False


def _is_one(node: cst.Subscript) -> bool:
    """Whether an index is one row, not several: no slice, list or pair."""
    index = index_of(node)
    return index is not None and not isinstance(index, cst.List | cst.Tuple)


def _is_iterated(module: Module, node: cst.CSTNode, name: str) -> bool:
    match node:
        case cst.For(
            target=cst.Tuple(elements=[_, cst.Element(value=cst.Name(second))]),
            iter=cst.Call(func=cst.Attribute(value=held, attr=cst.Name("iterrows"))),
        ):
            return second == name and is_frame(module, held)
    return False


def _counts_values(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name("value_counts"))):
            return is_column(module, held)
    return False
