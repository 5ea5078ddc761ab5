"""Statements of a block, and what a training loop is known by."""

from __future__ import annotations

import libcst as cst

WATCHED = ("profiler", "prof", "progress_bar", "bar", "pbar")  # whose `step` is none of the training


def lines_of(body: cst.BaseSuite) -> list[cst.CSTNode]:
    """The statements of a block: simple ones one by one."""
    if not isinstance(body, cst.IndentedBlock):
        return list(getattr(body, "body", ()))
    found: list[cst.CSTNode] = []
    for line in body.body:
        found.extend(line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    return found


def is_backward(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "backward"


def is_step(node: cst.CSTNode) -> bool:
    """`optimizer.step()`, of anything but a profiler or a progress bar."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "step":
        return False
    owner = node.func.value
    name = owner.attr if isinstance(owner, cst.Attribute) else owner
    return not isinstance(name, cst.Name) or name.value not in WATCHED


def is_zeroing(node: cst.CSTNode) -> bool:
    """`optimizer.zero_grad()`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "zero_grad"


def is_modulo(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
