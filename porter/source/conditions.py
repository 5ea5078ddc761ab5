"""Conditions of which parts are known, and what an expression was where the source trained, where it asks torch for a
GPU: a TPU machine would answer no."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

import libcst as cst

from .held_answers import asks_for_gpu
from .machine.gpu_of_run import speaks_of_gpu
from .scopes import inside
from .values import Unknown, evaluate

if TYPE_CHECKING:
    from .module import Module

Known = bool | str  # what a condition is, or the code that is left of it
# What an expression is, or the code that tells it in its place; None for one that isn't decided.
Answers = Callable[[cst.BaseExpression], bool | str | None]
ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.Integer, cst.Float)


def chosen_on_gpu(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """`bnb` of `bnb if torch.cuda.is_available() else None`; any other expression itself."""
    while isinstance(node, cst.IfExp) and speaks_of_gpu(module) and asks_for_gpu(module, node.test):
        kept = _kept(module, node)
        if kept is None:
            break
        node = kept
    return node


def decided(module: Module, node: cst.BaseExpression) -> str:
    """The code of an expression: of `bnb if torch.cuda.is_available() else None`, and of parts like it, `bnb`; of
    `bnb if args.quantize and torch.cuda.is_available() else None` what is left of the condition."""
    if not speaks_of_gpu(module):
        return module.code(node)
    start, code = module.span(node)[0], module.code(node)
    for part in reversed([*_outermost(module, node)]):
        if isinstance(part, cst.IfExp):
            kept = _kept(module, part) or part
            text = module.code(kept) if isinstance(kept, ATOMS) or part is node else f"({module.code(kept)})"
        else:
            left = left_on_gpu(module, part)
            text = str(left) if part is not node else bare(str(left))
        first, last = (place - start for place in module.span(part))
        code = code[:first] + text + code[last:]
    return code


def is_elif(module: Module, node: cst.CSTNode) -> bool:
    """Whether an `if` is the `elif` of another."""
    above = module.parents.get(node)
    return isinstance(above, cst.If) and above.orelse is node


def may_have_left(module: Module, start: int, node: cst.CSTNode) -> bool:
    """Whether a `return`, or a `break` or `continue` of a loop around `node`, stands between a place and `node`."""
    around, end = {*module.ancestors(node)}, module.span(node)[0]

    def leaves(left: cst.CSTNode) -> bool:
        if not isinstance(left, cst.Return | cst.Break | cst.Continue) or left in around:
            return False
        if not start < module.span(left)[0] < end or module.scope(left) is not module.scope(node):
            return False
        loops = (parent for parent in module.ancestors(left) if isinstance(parent, cst.For | cst.While))
        return isinstance(left, cst.Return) or next(loops, None) in around

    return any(map(leaves, module.parents))


def left_on_gpu(module: Module, test: cst.BaseExpression) -> Known | None:
    """What is left of a condition that asks for a GPU, among other things; None where nothing is known of it."""

    def answers(node: cst.BaseExpression) -> bool | None:
        if _is_joined(node) or not asks_for_gpu(module, node):
            return None
        try:
            known = evaluate(module, node)
        except Unknown:
            return None
        return known if isinstance(known, bool) else None

    found = simplified(module, test, answers)
    return None if found == module.code(test) else found


def _is_joined(node: cst.CSTNode) -> bool:
    negated = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return negated or isinstance(node, cst.BooleanOperation)


def _outermost(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The outermost conditional expressions that the question for a GPU decides, and the outermost conditions of which
    it decides a part, in source order."""
    found: list[cst.BaseExpression] = []
    for part in inside(node):
        within = any(module.span(one)[0] <= module.span(part)[0] < module.span(one)[1] for one in found)
        if not within and isinstance(part, cst.BaseExpression) and _is_decided(module, part):
            found.append(part)
    return found


def _is_decided(module: Module, part: cst.BaseExpression) -> bool:
    if isinstance(part, cst.IfExp):
        return asks_for_gpu(module, part.test) and _kept(module, part) is not None
    return _is_joined(part) and left_on_gpu(module, part) is not None


def _kept(module: Module, choice: cst.IfExp) -> cst.BaseExpression | None:
    try:
        return choice.body if evaluate(module, choice.test) else choice.orelse
    except Unknown:
        return None


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


def bare(code: str) -> str:
    """An expression without parentheses around the whole of it."""
    while code.startswith("(") and code.endswith(")"):
        try:
            inner = ast.parse(code[1:-1].strip(), mode="eval").body
            if isinstance(inner, ast.Tuple | ast.GeneratorExp | ast.NamedExpr | ast.Yield):
                break
        except SyntaxError:  # `(a) or (b)`
            break
        code = code[1:-1]
    return code


def in_two_branches(module: Module, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether of two places one stands in the body of an `if` and the other in its `else`, and no loop holds both."""
    first, second = {one, *module.ancestors(one)}, [other, *module.ancestors(other)]
    holder = next((node for node in second if node in first), None)
    if not isinstance(holder, cst.If) or module.loops(one) & module.loops(other):
        return False
    branches = {holder.body, holder.orelse}
    return all(any(node in branches for node in chain) for chain in (first, second))
