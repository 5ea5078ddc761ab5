"""Conditions that the port decides: an `if` keeps the branch that runs, a longer condition loses the decided part.

    if model_type == "mixtral" and is_deepspeed_zero3_enabled():
        set_z3_leaf_modules(model, [MixtralSparseMoeBlock])

goes; `low_cpu_mem_usage=not is_deepspeed_zero3_enabled()` is `True`.
"""

from __future__ import annotations

import libcst as cst

from ...source.conditions import Answers, bare, simplified
from ...source.module import Module
from ..script.porting import Porting
from .kept_branch import keep_branch


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
    if known is True and isinstance(holder, cst.Assert):
        porting.remove_statement(holder, rule, reason)
        return
    porting.edit(*module.span(test), bare(str(known)), rule, reason)


def condition(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The whole condition in which an expression stands."""
    while True:
        parent = module.parents[node]
        negated = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        if not negated and not isinstance(parent, cst.BooleanOperation):
            return node
        assert isinstance(parent, cst.BaseExpression)
        node = parent
