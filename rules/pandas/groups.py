"""Groups of rows without the column that they are grouped by: `frame.groupby("label").apply(draw)`.

What it does: gives each group all columns, `frame.groupby("label")[list(frame.columns)].apply(draw)`.
Why: pandas 3 leaves the column out of what `apply` is given, and so of its result: rows that are drawn evenly by their
label have none, which a script asks for next. `include_groups=True`, which kept it in pandas 2.2, is refused.
Example: `rows = frame.groupby("label", group_keys=False).apply(draw)`
Use instead: `rows = frame.groupby("label", group_keys=False)[list(frame.columns)].apply(draw)`
Safety: exact.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import named_arguments

from ._frames import free_nodes, is_frame
from ._today import may_be_older

ID = "TP543"
REASON = "pandas 3 leaves the column out that groups are made by"


@step(Phase.NAME)
def keep_group_columns(porting: Porting) -> None:
    """Each group has all columns."""
    module = porting.module
    if not may_be_older(porting):
        return
    for call in free_nodes(porting, cst.Call):
        match call.func:
            case cst.Attribute(
                value=cst.Call(func=cst.Attribute(value=frame, attr=cst.Name("groupby"))) as groups,
                attr=cst.Name("apply"),
            ) if is_frame(module, frame):
                pass
            case _:
                continue
        given = named_arguments(call, ()).get("include_groups")
        if isinstance(given, cst.Name) and given.value == "False":
            continue
        by_place = "as_index" in named_arguments(groups, ())
        if not isinstance(frame, cst.Name | cst.Attribute) or given is not None or by_place:
            message = f"{module.code(call.func)}(...): {REASON}, and out of the result."
            fix = "Select all columns behind groupby(...), [list(frame.columns)], and leave include_groups out."
            porting.find(ID, "error", message, fix, *module.location(call))
            continue
        after = module.span(groups)[1]
        porting.edit(after, after, f"[list({module.code(frame)}.columns)]", ID, REASON)
