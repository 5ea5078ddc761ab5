"""What an expression was where the source trained, where it asks torch for a GPU: a TPU machine would answer no."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from .scopes import inside
from .values import SEES_GPU, Unknown, evaluate

if TYPE_CHECKING:
    from .module import Module

ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.Integer, cst.Float)


def chosen_on_gpu(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """`bnb` of `bnb if torch.cuda.is_available() else None`; any other expression itself."""
    while isinstance(node, cst.IfExp) and _speaks_of_gpu(module) and _asks_for_gpu(module, node.test):
        kept = _kept(module, node)
        if kept is None:
            break
        node = kept
    return node


def decided(module: Module, node: cst.BaseExpression) -> str:
    """The code of an expression: of `bnb if torch.cuda.is_available() else None`, and of parts like it, `bnb`."""
    if not _speaks_of_gpu(module):
        return module.code(node)
    start, code = module.span(node)[0], module.code(node)
    for part in reversed([*_choices(module, node)]):
        kept = _kept(module, part) or part
        first, last = (place - start for place in module.span(part))
        text = module.code(kept) if isinstance(kept, ATOMS) or part is node else f"({module.code(kept)})"
        code = code[:first] + text + code[last:]
    return code


def _speaks_of_gpu(module: Module) -> bool:
    return any(name.rsplit(".", 1)[-1] in module.text for name in SEES_GPU)


def _choices(module: Module, node: cst.BaseExpression) -> list[cst.IfExp]:
    """The outermost conditional expressions that the question for a GPU decides, in source order."""
    found: list[cst.IfExp] = []
    for part in inside(node):
        within = any(module.span(one)[0] <= module.span(part)[0] < module.span(one)[1] for one in found)
        if isinstance(part, cst.IfExp) and not within and _asks_for_gpu(module, part.test):
            if _kept(module, part) is not None:
                found.append(part)
    return found


def _kept(module: Module, choice: cst.IfExp) -> cst.BaseExpression | None:
    try:
        return choice.body if evaluate(module, choice.test) else choice.orelse
    except Unknown:
        return None


def _asks_for_gpu(module: Module, test: cst.BaseExpression) -> bool:
    """Whether a condition asks torch, or a variable that holds what torch answered."""
    for part in inside(test):
        binding = module.single_binding(part) if isinstance(part, cst.Name) else None
        for value in (part, binding.value if binding is not None else None):
            if value is not None and any(
                isinstance(each, cst.Call) and module.qualified(each.func) in SEES_GPU for each in inside(value)
            ):
                return True
    return False
