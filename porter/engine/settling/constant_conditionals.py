"""`jnp.bfloat16 if True else jnp.bfloat16`, `not True`, `args.bf16 and True`, `if True:`: what rewrites leave of a
choice that the port has settled."""

from __future__ import annotations

import operator
import re
from dataclasses import replace

import libcst as cst

from ...source.scopes import inside
from ...text.edit import Edit
from ...text.edits import apply_edits
from ..script.porting import Porting
from ..steps.step import Phase, step
from .kept_branch import keep_branch

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
    for compared in [node for node in porting.module.parents if isinstance(node, cst.Comparison)]:
        inner = _inside(porting, compared)
        if len(inner) == 1 and re.fullmatch(r"\d+ ?(?:[<>]=?|[=!]=) ?\d+", text := edited(porting, compared)):
            porting.edits.remove(inner[0])
            porting.edit(*porting.module.span(compared), str(_holds(text)), RULE, inner[0].reason)
    for both in reversed([node for node in porting.module.parents if isinstance(node, cst.BooleanOperation)]):
        inner = _inside(porting, both)
        if inner and (left := _left_of(porting, both)) is not None:
            porting.edits = [edit for edit in porting.edits if edit not in inner]
            porting.edit(*porting.module.span(both), left, RULE, inner[0].reason)
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


@step(Phase.SETTLE, reads=("conditions",), fills=("branches",))
def settle_constant_branches(porting: Porting) -> None:
    """An `if` or `elif` whose condition became constant keeps the branch that runs."""
    module = porting.module
    for holder in [node for node in module.parents if isinstance(node, cst.If)]:
        made = [edit for edit in porting.edits if (edit.start, edit.end) == module.span(holder.test)]
        if len(made) != 1 or made[0].new not in ("True", "False") or module.code(holder.test) == made[0].new:
            continue
        if any(edit is not made[0] and edit.start <= made[0].start < edit.end for edit in porting.edits):
            continue
        porting.edits.remove(made[0])
        if not keep_branch(porting, holder, made[0].new == "True", made[0].rule, made[0].reason):
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
        text = edited(porting, part)
        if text not in ("True", "False") or text == porting.module.code(part):
            continue
        if text == neutral:
            return f"({edited(porting, other)})" if other.lpar else edited(porting, other)
        if part is both.left or not any(isinstance(item, cst.Call) for item in inside(other)):
            return text
    return None


def _inside(porting: Porting, node: cst.BaseExpression) -> list[Edit]:
    start, end = porting.module.span(node)
    return [edit for edit in porting.edits if start <= edit.start and edit.end <= end]


def edited(porting: Porting, node: cst.BaseExpression) -> str:
    """An expression's text with the edits that are made in it."""
    start, end = porting.module.span(node)
    inner = [replace(edit, start=edit.start - start, end=edit.end - start) for edit in _inside(porting, node)]
    return apply_edits(porting.module.text[start:end], inner)
