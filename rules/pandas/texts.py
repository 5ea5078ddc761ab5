"""Columns of text, which pandas 3 holds in a type of their own: `frame["text"].dtype == object`.

What it does: a warning where a script asks whether a column's type is `object`, which text has no more; a note where
`astype(str)` made "nan" of what is missing, and leaves it so now.
Why: pandas 3 answers otherwise, so that other rows, or other columns, are trained.
Example: `texts = [name for name in frame if frame[name].dtype == "object"]`
Use instead: `texts = [name for name in frame if frame[name].dtype in ("object", "str")]`
Safety: what follows from it is the script's own; the rows tell.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module

from ._frames import free_nodes, is_column, is_frame
from ._today import may_be_older

ID = "TP544"
OBJECTS = frozenset({"object", "'object'", '"object"', "'O'", '"O"', "np.object_", "numpy.object_"})


@step(Phase.NAME)
def name_text_types(porting: Porting) -> None:
    """A finding for each question and conversion that pandas 3 answers otherwise."""
    module = porting.module
    if not may_be_older(porting):
        return
    for node in free_nodes(porting, cst.Comparison):
        if _asks_for_objects(module, node):
            message = f"{module.code(node)}: in pandas 3 a column of text is no object: its type is str."
            fix = 'Ask with `in ("object", "str")`, which both answer alike.'
            porting.find(ID, "warning", message, fix, *module.location(node))
    for call in free_nodes(porting, cst.Call):
        if _makes_texts(module, call):
            message = f"{module.code(call)}: pandas 3 leaves what is missing as it is; pandas 2 made 'nan' of it."
            fix = "Write .map(str) if rows may be missing there, or leave them out on both."
            porting.find(ID, "info", message, fix, *module.location(call))


def _asks_for_objects(module: Module, node: cst.Comparison) -> bool:
    match node:
        case cst.Comparison(
            left=cst.Attribute(value=held, attr=cst.Name("dtype" | "dtypes")),
            comparisons=[cst.ComparisonTarget(operator=cst.Equal() | cst.NotEqual(), comparator=other)],
        ):
            of_frame = isinstance(held, cst.Subscript) and is_frame(module, held.value)
            return module.code(other) in OBJECTS and (of_frame or is_column(module, held) or is_frame(module, held))
    return False


def _makes_texts(module: Module, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "astype" or len(call.args) != 1:
        return False
    given = call.args[0].value
    return module.code(given) in ("str", "'str'", '"str"') and is_column(module, call.func.value)
