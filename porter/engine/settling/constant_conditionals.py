"""`jnp.bfloat16 if True else jnp.bfloat16`, `not True`, `args.bf16 and True`, `if True:`: what rewrites leave of a
choice that the port has settled."""

from __future__ import annotations

import operator
import re

import libcst as cst

from ...source.scopes import inside
from ..script.porting import Porting
from ..steps.step import Phase, step
from .kept_branch import keep_branch

RULE = "TP101"
REASON = "both ways are the same now"


@step(Phase.SETTLE, fills=("conditions",))
def settle_branches(porting: Porting) -> None:
    """Conditional expressions whose condition became constant, or whose ways became one, keep what they give."""
    for negated in [node for node in porting.module.parents if isinstance(node, cst.UnaryOperation)]:
        opposite = {"True": "False", "False": "True"}.get(porting.code_now(negated.expression))
        if isinstance(negated.operator, cst.Not) and opposite is not None and len(porting.within(negated)) == 1:
            porting.settle(negated, opposite, RULE)
    for compared in [node for node in porting.module.parents if isinstance(node, cst.Comparison)]:
        text = porting.code_now(compared) if len(porting.within(compared)) == 1 else ""
        if re.fullmatch(r"\d+ ?(?:[<>]=?|[=!]=) ?\d+", text):
            porting.settle(compared, str(_holds(text)), RULE)
    for both in reversed([node for node in porting.module.parents if isinstance(node, cst.BooleanOperation)]):
        if porting.within(both) and (left := _left_of(porting, both)) is not None:
            porting.settle(both, left, RULE)
    for node in [node for node in porting.module.parents if isinstance(node, cst.IfExp)]:
        span = porting.module.span(node)
        if not porting.within(node) or any(edit.start <= span[0] and span[1] <= edit.end for edit in porting.edits):
            continue
        test, body, other = (porting.code_now(part) for part in (node.test, node.body, node.orelse))
        chosen = {"True": body, "False": other}.get(test)
        settled = chosen if test != porting.module.code(node.test) else None
        if settled is None and body == other and not any(isinstance(part, cst.Call) for part in inside(node.test)):
            settled = body
        if settled is not None:
            porting.settle(node, settled, RULE, REASON)


@step(Phase.SETTLE, reads=("conditions",), fills=("branches",))
def settle_constant_branches(porting: Porting) -> None:
    """An `if` or `elif` whose condition became constant keeps the branch that runs."""
    module = porting.module
    for holder in reversed([node for node in module.parents if isinstance(node, cst.If)]):  # inner ones first
        made = [edit for edit in porting.edits if (edit.start, edit.end) == module.span(holder.test)]
        taken = made[0].constant if len(made) == 1 else None
        if taken is None or module.code(holder.test) == str(taken):
            continue
        if any(edit is not made[0] and edit.start <= made[0].start < edit.end for edit in porting.edits):
            continue
        porting.edits.remove(made[0])
        if not keep_branch(porting, holder, taken, made[0].rule, made[0].reason):
            porting.edits.append(made[0])


def _holds(text: str) -> bool:
    """Whether `1 > 1` holds."""
    left, sign, right = re.split(r" ?([<>=!]+) ?", text)
    compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
    return bool(compare.get(sign, operator.ne)(int(left), int(right)))


def _left_of(porting: Porting, both: cst.BooleanOperation) -> str | None:
    """What is left of `and` or `or` when one of its parts became constant; None where none did."""
    neutral = "True" if isinstance(both.operator, cst.And) else "False"
    for part, other in ((both.left, both.right), (both.right, both.left)):
        text = porting.code_now(part)
        if text not in ("True", "False") or text == porting.module.code(part):
            continue
        if text == neutral:
            return f"({porting.code_now(other)})" if other.lpar else porting.code_now(other)
        if part is both.left or not any(isinstance(item, cst.Call) for item in inside(other)):
            return text
    return None
