"""Statements of a block, and what a training loop is known by."""

from __future__ import annotations

import libcst as cst

from ....source.module import Module

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


def last_name(node: cst.BaseExpression) -> str:
    """`step` of `optimizer.step`, and a name itself."""
    return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""


def is_there(module: Module, node: cst.If) -> bool:
    """`if scheduler is not None: scheduler.step()`: the port has what the file makes."""
    lines = lines_of(node.body)
    call = lines[0].value if len(lines) == 1 and isinstance(lines[0], cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or node.orelse is not None:
        return False
    owner, test = module.code(call.func.value), module.code(node.test)
    return last_name(call.func) == "step" and test in (owner, f"{owner} is not None") and not call.args


def is_of_scaler(module: Module, line: cst.CSTNode) -> bool:
    """`scaler.unscale_(optimizer)`, `scaler.update()`."""
    call = line.value if isinstance(line, cst.Expr) else None
    if not isinstance(call, cst.Call):
        return False
    return last_name(call.func) in ("unscale_", "update") and "scaler" in module.code(call.func).lower()


def is_share(name: str, value: cst.BaseExpression) -> bool:
    """`loss / n` of `loss = loss / n`."""
    left = value.left if isinstance(value, cst.BinaryOperation) else None
    return isinstance(left, cst.Name) and left.value == name
