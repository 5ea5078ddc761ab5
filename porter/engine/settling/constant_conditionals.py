"""`jnp.bfloat16 if True else jnp.bfloat16`, `not True`: what rewrites leave of a choice that the port has settled."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ...source.scopes import inside
from ...text.edit import Edit
from ...text.edits import apply_edits
from ..script.porting import Porting
from ..steps.step import Phase, step

RULE = "TP101"
REASON = "both ways are the same now"


@step(Phase.SETTLE, fills=("conditions",))
def settle_branches(porting: Porting) -> None:
    """Conditional expressions whose condition became constant, or whose ways became one, keep what they give."""
    for negated in [node for node in porting.module.parents if isinstance(node, cst.UnaryOperation)]:
        opposite = {"True": "False", "False": "True"}.get(edited(porting, negated.expression))
        inner = _inside(porting, negated)
        if isinstance(negated.operator, cst.Not) and opposite is not None and len(inner) == 1:
            porting.edits.remove(inner[0])
            porting.edit(*porting.module.span(negated), opposite, RULE, inner[0].reason)
    for node in [node for node in porting.module.parents if isinstance(node, cst.IfExp)]:
        span = porting.module.span(node)
        inner = _inside(porting, node)
        if not inner or any(edit.start <= span[0] and span[1] <= edit.end for edit in porting.edits):
            continue
        test, body, other = (edited(porting, part) for part in (node.test, node.body, node.orelse))
        chosen = {"True": body, "False": other}.get(test)
        settled = chosen if test != porting.module.code(node.test) else None
        if settled is None and body == other and not any(isinstance(part, cst.Call) for part in inside(node.test)):
            settled = body
        if settled is None:
            continue
        porting.edits = [edit for edit in porting.edits if edit not in inner]
        porting.edit(*span, settled, RULE, REASON)


def _inside(porting: Porting, node: cst.BaseExpression) -> list[Edit]:
    start, end = porting.module.span(node)
    return [edit for edit in porting.edits if start <= edit.start and edit.end <= end]


def edited(porting: Porting, node: cst.BaseExpression) -> str:
    """An expression's text with the edits that are made in it."""
    start, end = porting.module.span(node)
    inner = [replace(edit, start=edit.start - start, end=edit.end - start) for edit in _inside(porting, node)]
    return apply_edits(porting.module.text[start:end], inner)
