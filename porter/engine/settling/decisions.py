"""Conditions that the port decides: an `if` keeps the branch that runs, a longer condition loses the decided part.

    if model_type == "mixtral" and is_deepspeed_zero3_enabled():
        set_z3_leaf_modules(model, [MixtralSparseMoeBlock])

goes; `low_cpu_mem_usage=not is_deepspeed_zero3_enabled()` is `True`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import libcst as cst

from ...source.module import Module
from ..script.porting import Porting
from .kept_branch import keep_branch

Known = bool | str  # what a condition is, or the code that is left of it
Answers = Callable[[cst.BaseExpression], bool | None]  # what an expression is, None for one that isn't decided


def decide(porting: Porting, node: cst.BaseExpression, answers: Answers, rule: str, reason: str) -> None:
    """Decide the condition in which `node` stands by `answers`; nothing where an edit is there already."""
    module = porting.module
    if porting.covered(module.span(node)[0]):
        return
    test = condition(module, node)
    holder = module.parents[test]
    tested = isinstance(holder, cst.If | cst.IfExp | cst.While | cst.Assert) and holder.test is test
    known = simplified(module, test, answers, value=not tested)
    if isinstance(known, bool) and isinstance(holder, cst.If) and holder.test is test:
        if keep_branch(porting, holder, known, rule, reason):
            return
    porting.edit(*module.span(test), _bare(str(known)), rule, reason)


def condition(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The whole condition in which an expression stands."""
    while True:
        parent = module.parents[node]
        negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        if not negated and not isinstance(parent, cst.BooleanOperation):
            return node
        assert isinstance(parent, cst.BaseExpression)
        node = parent


def simplified(module: Module, node: cst.BaseExpression, answers: Answers, *, value: bool = False) -> Known:
    """A condition without its decided parts; what is put together anew stands in parentheses.

    `value`: what it gives is used, not only whether it is true: `name or asks()` may give the name, whatever is asked.
    """
    answer = answers(node)
    if answer is not None:
        return answer
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        inner = simplified(module, node.expression, answers)
        if isinstance(inner, bool):
            return not inner
        return module.code(node) if inner == module.code(node.expression) else f"not ({inner})"
    if isinstance(node, cst.BooleanOperation):
        parts = [simplified(module, part, answers, value=value) for part in (node.left, node.right)]
        settles = isinstance(node.operator, cst.Or)  # the value of one part that decides the whole
        if value and not isinstance(parts[0], bool):
            changed = [str(part) for part in parts] != [module.code(part) for part in (node.left, node.right)]
            word = module.code(node.operator).strip()
            return f"({parts[0]} {word} {parts[1]})" if changed else module.code(node)
        if settles in parts:
            return settles
        left = [str(part) for part in parts if not isinstance(part, bool)]
        if len(left) < 2:
            return left[0] if left else not settles
        if left != [module.code(part) for part in (node.left, node.right)]:
            return f"({f' {module.code(node.operator).strip()} '.join(left)})"
    return module.code(node)


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
