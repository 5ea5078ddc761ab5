"""`is_deepspeed_zero3_enabled()`: there is no DeepSpeed on a TPU, and what it decides is decided so.

    if model_type == "mixtral" and is_deepspeed_zero3_enabled():
        set_z3_leaf_modules(model, [MixtralSparseMoeBlock])

goes; `low_cpu_mem_usage=not is_deepspeed_zero3_enabled()` is `True`.
"""

from __future__ import annotations

import ast

import libcst as cst

from ...script.porting import Porting
from ...settling.kept_branch import keep_branch

RULE = "TP527"
ASKED = "is_deepspeed_zero3_enabled"
REASON = "there is no DeepSpeed on a TPU"
Known = bool | str  # what a condition is, or the code that is left of it


def answer_zero_tests(porting: Porting) -> None:
    """Every condition that asks for DeepSpeed's ZeRO-3 is decided, or loses that part of it."""
    module = porting.module
    if ASKED not in module.text or not porting.options.active(RULE):
        return
    for call in [call for call in module.calls if _asks(porting, call)]:
        test = _condition(porting, call)
        holder = module.parents[test]
        if porting.covered(module.span(call)[0]):
            continue
        known = _simplified(porting, test)
        if isinstance(known, bool) and isinstance(holder, cst.If) and holder.test is test:
            if keep_branch(porting, holder, known, RULE, REASON):
                continue
        porting.edit(*module.span(test), _bare(str(known)), RULE, REASON)


def _asks(porting: Porting, node: cst.CSTNode) -> bool:
    name = porting.module.qualified(node.func) if isinstance(node, cst.Call) else None
    return name is not None and name.startswith("transformers.") and name.endswith(f".{ASKED}")


def _condition(porting: Porting, node: cst.BaseExpression) -> cst.BaseExpression:
    """The whole condition in which a call stands."""
    while True:
        parent = porting.module.parents[node]
        negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        if not negated and not isinstance(parent, cst.BooleanOperation):
            return node
        assert isinstance(parent, cst.BaseExpression)
        node = parent


def _simplified(porting: Porting, node: cst.BaseExpression) -> Known:
    """A condition without DeepSpeed in it; what is put together anew stands in parentheses."""
    if _asks(porting, node):
        return False
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        inner = _simplified(porting, node.expression)
        if isinstance(inner, bool):
            return not inner
        return porting.module.code(node) if inner == porting.module.code(node.expression) else f"not ({inner})"
    if isinstance(node, cst.BooleanOperation):
        parts = [_simplified(porting, part) for part in (node.left, node.right)]
        settles = isinstance(node.operator, cst.Or)  # the value of one part that decides the whole
        if settles in parts:
            return settles
        left = [str(part) for part in parts if not isinstance(part, bool)]
        if len(left) < 2:
            return left[0] if left else not settles
        if left != [porting.module.code(part) for part in (node.left, node.right)]:
            return f"({f' {porting.module.code(node.operator).strip()} '.join(left)})"
    return porting.module.code(node)


def _bare(code: str) -> str:
    """Code without parentheses around the whole of it."""
    inner = code[1:-1]
    if not code.startswith("(") or not code.endswith(")"):
        return code
    try:
        same = ast.dump(ast.parse(inner, mode="eval")) == ast.dump(ast.parse(code, mode="eval"))
    except SyntaxError:
        return code
    return inner if same else code
