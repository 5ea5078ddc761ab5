"""Changes of a column in place, which pandas 3 makes in a copy: `frame["text"].fillna("", inplace=True)`.

What it does: `frame["text"].fillna("", inplace=True)` becomes `frame["text"] = frame["text"].fillna("")`, and
`frame["label"][row] = 1` becomes `frame.loc[row, "label"] = 1`; so do `.loc` and `.iloc` of a column, and the other
methods that fill or replace values. A warning instead where the script may have had pandas 3 itself.
Why: in pandas 3 a column is a copy, so that the frame, and the rows made of it, stay as they were, with a warning.
Example: `frame["text"].fillna("", inplace=True)`
Use instead: `frame["text"] = frame["text"].fillna("")`
Safety: exact. A slice of rows, `frame["label"][2:5] = 1`, is an error that a person answers.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, index_of, named_arguments, small_statement, text_index

from ._frames import free_nodes, is_frame
from ._today import had_3, may_be_older

ID = "TP532"
REASON = "in pandas 3 a column is a copy"
IN_PLACE = frozenset("fillna replace clip where mask ffill bfill interpolate".split())
BY_LABEL, BY_PLACE = "loc", "iloc"


@step(Phase.NAME)
def change_frames(porting: Porting) -> None:
    """What changes a column changes its frame."""
    module = porting.module
    if not may_be_older(porting):
        return
    for call in free_nodes(porting, cst.Call):
        if _fills_in_place(module, call):
            _assign(porting, call)
    for item in free_nodes(porting, cst.Subscript):
        line = module.parents[item]
        if isinstance(line, cst.AssignTarget | cst.AugAssign) and line.target is item:
            _set_in_frame(porting, item)


def _column(module: Module, node: cst.BaseExpression) -> tuple[cst.BaseExpression, str] | None:
    """The frame and the column that `frame["text"]` or `frame.text` is."""
    if isinstance(node, cst.Subscript) and (name := text_index(node)) is not None:
        return (node.value, repr(name)) if is_frame(module, node.value) else None
    if isinstance(node, cst.Attribute) and is_frame(module, node.value):
        return node.value, repr(node.attr.value)
    return None


def _fills_in_place(module: Module, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in IN_PLACE:
        return False
    places = named_arguments(call, ()).get("inplace")
    return (
        isinstance(places, cst.Name)
        and places.value == "True"
        and _column(module, call.func.value) is not None
        and isinstance(module.parents[call], cst.Expr)
    )


def _assign(porting: Porting, call: cst.Call) -> None:
    module = porting.module
    assert isinstance(call.func, cst.Attribute)
    column = module.code(call.func.value)
    if _may_be_meant(porting, call, column):
        return
    kept = [
        module.code(each).rstrip(", \n") for each in call.args if not (each.keyword and each.keyword.value == "inplace")
    ]
    start, end = module.span(call)
    new = f"{column} = {module.code(call.func)}({', '.join(kept)})"
    porting.edit(start, end, new, ID, REASON)


def _set_in_frame(porting: Porting, target: cst.Subscript) -> None:
    """`frame["label"][row]` as the target of an assignment, and `frame["label"].loc[row]`."""
    module, way = porting.module, BY_LABEL
    held: cst.BaseExpression = target.value
    if isinstance(held, cst.Attribute) and held.attr.value in (BY_LABEL, BY_PLACE):
        way, held = held.attr.value, held.value
    found = _column(module, held) if isinstance(held, cst.Subscript) else None
    if found is None or small_statement(module, target) is None:
        return
    frame, name = module.code(found[0]), found[1]
    if _may_be_meant(porting, target, module.code(held)):
        return
    index = index_of(target)
    if index is None:
        message = f"{module.code(target)} = ...: in pandas 3 a column is a copy, and {frame} stays as it was."
        fix = f"Write {frame}.iloc[..., {frame}.columns.get_loc({name})] = ..., which counts rows as this does."
        porting.find(ID, "error", message, fix, *module.location(target))
        return
    column = name if way == BY_LABEL else f"{frame}.columns.get_loc({name})"
    start, end = module.span(target)
    porting.edit(start, end, f"{frame}.{way}[{module.code(index)}, {column}]", ID, REASON)


def _may_be_meant(porting: Porting, node: cst.CSTNode, column: str) -> bool:
    """A warning, where the GPU run may have had pandas 3, whose way this was then."""
    if had_3(porting) is False:
        return False
    message = f"{column} is changed in place: pandas 3 changes a copy, so that the frame stays as it was."
    fix = f"Unless the GPU run had pandas 3, too, assign it: {column} = ...; in requirements.txt pandas tells which."
    porting.find(ID, "warning", message, fix, *porting.module.location(node))
    return True
