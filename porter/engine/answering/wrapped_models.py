"""Conditions that ask whether a model is wrapped for several GPUs: Tunix's never is.

model_to_save = trainer.model.module if hasattr(trainer.model, "module") else trainer.model
if hasattr(model, "_set_static_graph"):
    model._set_static_graph()
"""

from __future__ import annotations

import libcst as cst

from ..script.porting import Porting
from ..script.uses_of_training import role_uses
from ..script.where_values_go import asks_for_wrapper
from ..settling.decisions import decide
from ..steps.step import Phase, step

RULE = "TP190"
REASON = "the mesh shards the model, which nothing wraps"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def answer_wrapping(porting: Porting) -> None:
    """Keep the ways of a model that isn't wrapped."""
    module = porting.module
    if "hasattr(" not in module.text and "isinstance(" not in module.text:
        return
    for use in role_uses(porting):
        held = use.outer if use.match == "@trainer.model" else use.name if use.match == "@model" else None
        argument = module.parents[held] if held is not None else None
        call = module.parents[argument] if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or not asks_for_wrapper(module, call):
            continue
        choice = module.parents[call]
        if isinstance(choice, cst.IfExp) and choice.test is call:
            if not porting.covered(module.span(choice)[0]):
                porting.edit(module.span(choice)[0], module.span(choice.orelse)[0], "", RULE, REASON)
        else:
            decide(porting, call, lambda part, asked=call: False if part is asked else None, RULE, REASON)  # type: ignore[misc]
