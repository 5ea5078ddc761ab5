"""What the script does with a reference model or a teacher: what a model that only computes does not need goes.

`ref_model.eval()`, `ref_model.gradient_checkpointing_enable()`, a loop that freezes its parameters. A rule that matches
`@reference.resize_token_embeddings()` answers that. What else torch's model had is named: Tunix's model ends at it.
"""

from __future__ import annotations

import libcst as cst

from ..packs.pack import Rewrite
from ..packs.python_rule import SiteRule
from ..script.porting import Porting
from ..script.sites import shortened
from ..script.uses_of_training import Use, uses
from ..script.where_values_go import holders
from ..steps.step import Phase, step
from .member_uses import QUIET, member_rules
from .python_rules import answer

RULE = "TP190"
REASON = "a reference trains nothing"


@step(Phase.ANSWER, of="trainer", reads=("claimed uses",))
def apply_reference_members(porting: Porting) -> None:
    """Answer every use of the models that `ref_model=` and `teacher_model=` are given."""
    covered = [(edit.start, edit.end) for edit in porting.edits if edit.end > edit.start]
    for site in porting.references:
        places, _ = holders(porting.module, site)
        for place in places:
            for use in uses(porting, "reference", place.variable, place.scope):
                start = porting.module.span(use.name)[0]
                if use.kind != "bare" and not any(begin <= start < end for begin, end in covered):
                    _answer(porting, use)


def _answer(porting: Porting, use: Use) -> None:
    module = porting.module
    rules = member_rules(porting)
    own = rules.get(use.match)
    if isinstance(own, SiteRule) and isinstance(use.outer, cst.Call):
        if answer(porting, own, use.outer, use.role, use.match, use.match):
            return
    rule = rules.get(use.match.replace("@reference", "@model"))
    statement = module.statement(use.outer)
    alone = isinstance(module.parents[use.outer], cst.Expr) or use.kind == "assign"
    loop = module.parents[use.outer]
    if isinstance(rule, Rewrite) and rule.action == "remove" and alone:
        porting.remove_statement(use.outer, rule.id, rule.reason)
    elif use.chain == "requires_grad_" and alone:
        porting.remove_statement(use.outer, RULE, REASON)
    elif isinstance(loop, cst.For) and loop.iter is use.outer and _freezes(module.code(loop.body)):
        porting.remove_statement(loop, RULE, REASON)
    elif statement is not None and (use.kind == "call" or use.chain.partition(".")[0] not in QUIET):
        code = shortened(module.code(use.outer))
        message = f"{code}: the reference is Tunix's model, which has no counterpart."
        line, column = module.location(use.outer)
        porting.find(RULE, "error", message, "Take it out, or write what it does with JAX.", line, column, True)


def _freezes(body: str) -> bool:
    lines = [line.replace(" ", "") for line in body.splitlines() if line.strip()]
    return bool(lines) and all(line.endswith((".requires_grad=False", ".requires_grad_(False)")) for line in lines)
