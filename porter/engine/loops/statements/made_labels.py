"""Labels that a loop makes of its batch: a copy of the token ids that is -100 at padding.

    labels = input_ids.clone()
    labels[attention_mask == 0] = -100

Also `ids.masked_fill(ids == pad, -100)`, `torch.where(mask == 1, ids, -100)`, and as `batch["labels"]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from ....source.module import Module
from ....source.read_value import read_value
from ...script.sites import is_of_gpu_library
from .blocks import last_name

PartOf = Callable[[cst.BaseExpression], str | None]
COPIES = ("clone", "masked_fill", "where")


@dataclass(frozen=True)
class Unlabelled:
    """The labels are -100 where the part `key` of the batch is `value`, 0 where that is None."""

    key: str
    value: cst.BaseExpression | None


def is_ignored(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression is -100, the label of what isn't trained."""
    return read_value(module, node).is_literal(-100)


def is_copy(node: cst.BaseExpression) -> bool:
    """Whether a tensor is one of its own, which may be changed."""
    while isinstance(node, cst.Call):
        if last_name(node.func) in COPIES:
            return True
        if not isinstance(node.func, cst.Attribute):
            return False
        node = node.func.value
    return False


def filled(module: Module, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression, bool] | None:
    """Tensor, condition and whether that is the one to keep, of `x.masked_fill(c, -100)`, `torch.where(c, x, -100)`
    and `torch.where(c, -100, x)`."""
    values = [argument.value for argument in node.args] if isinstance(node, cst.Call) else []
    if not isinstance(node, cst.Call) or any(argument.keyword is not None for argument in node.args):
        return None
    last = last_name(node.func)
    if last == "masked_fill" and len(values) == 2 and is_ignored(module, values[1]):
        return (node.func.value, values[0], False) if isinstance(node.func, cst.Attribute) else None
    if last == "where" and is_of_gpu_library(module, node.func) and len(values) == 3:
        if is_ignored(module, values[2]):
            return values[1], values[0], True
        if is_ignored(module, values[1]):
            return values[2], values[0], False
    return None


def where(module: Module, test: cst.BaseExpression, part: PartOf, *, keeps: bool = False) -> Unlabelled | None:
    """What a condition asks of the batch; `keeps`: those for which it holds are trained."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.BitInvert):
        return where(module, test.expression, part, keeps=not keeps)
    if isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute):
        of, values = test.func.value, [argument.value for argument in test.args]
        if test.func.attr.value in ("eq", "ne") and len(values) == 1:
            return _compared(module, of, values[0], test.func.attr.value == "eq", part, keeps)
        if test.func.attr.value == "bool" and not values and keeps and (key := part(of)) is not None:
            return Unlabelled(key, None)  # of a mask
        return None
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        one = test.comparisons[0]
        if isinstance(one.operator, cst.Equal | cst.NotEqual):
            return _compared(module, test.left, one.comparator, isinstance(one.operator, cst.Equal), part, keeps)
    return None


def _compared(
    module: Module, left: cst.BaseExpression, right: cst.BaseExpression, equal: bool, part: PartOf, keeps: bool
) -> Unlabelled | None:
    if (key := part(left)) is None or part(right) is not None:
        return None
    if equal != keeps:
        return Unlabelled(key, right)
    is_one = "mask" in module.code(left) and read_value(module, right).is_literal(1)
    return Unlabelled(key, None) if is_one else None
