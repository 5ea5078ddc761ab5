"""Whether the port holds the devices when it comes to a place: its mesh is made below the imports, or above there.

model = load()         the mesh is made in load(), in front of the model
rows.map(clean)        behind it
"""

from __future__ import annotations

import libcst as cst

from ....source.calls import calls_of, function_around
from ....source.conditions import in_two_branches
from ..porting import MESH, Porting

MAKES = ("model", "inject", "trainer")  # sites at which the port has its mesh
MAX_DEPTH = 3  # functions that call one another


def holds_devices(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether the mesh of the port stands above `node`, in its function or where one that calls it is called."""
    return any(edit.part == MESH for edit in porting.edits) or _is_behind(porting, node, 0)


def _is_behind(porting: Porting, node: cst.CSTNode, depth: int) -> bool:
    module, function = porting.module, function_around(porting.module, node)
    start = module.span(node)[0]
    above = [made for made in _makers(porting) if module.span(made)[0] < start]
    if any(function_around(module, made) is function and not in_two_branches(module, made, node) for made in above):
        return True
    calls = calls_of(module, function) if function is not None and depth < MAX_DEPTH else ()
    return any(_is_behind(porting, call, depth + 1) for call in calls)


def _makers(porting: Porting) -> list[cst.CSTNode]:
    """The sites at which the mesh is made, and the calls of the file's functions that come there."""
    module = porting.module
    found: list[cst.CSTNode] = [site.node for role in MAKES for site in porting.of_role(role)]
    for node in found:  # grows as it is read
        function = function_around(module, node)
        found += [call for call in (calls_of(module, function) if function is not None else ()) if call not in found]
    return found
