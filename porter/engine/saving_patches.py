"""`model.state_dict = (lambda self, ...: get_peft_model_state_dict(...)).__get__(model, type(model))`.

Scripts of the alpaca-lora line patch the model so that transformers' Trainer saves the adapter alone. The port's
checkpoints and `rt.save_adapter` hold nothing else, so that the patch and the name of the original method go.
"""

from __future__ import annotations

import libcst as cst

from .members import Use, role_uses
from .porting import Porting

RULE = "TP310"
REASON = "the port saves the adapter alone in any case"


def drop_saving_patches(porting: Porting) -> None:
    """Take out assignments to the model's state_dict, and a name that only held the original."""
    found = [use for use in role_uses(porting, "model") if use.chain == "state_dict"]
    patches = [use for use in found if use.kind == "assign" and _calls(porting, use, "get_peft_model_state_dict")]
    for use in patches:
        porting.remove_statement(use.outer, RULE, REASON)
    for use in found if patches else ():
        _drop_original(porting, use)


def _calls(porting: Porting, use: Use, function: str) -> bool:
    return function in porting.module.code(porting.module.statement(use.outer))


def _drop_original(porting: Porting, use: Use) -> None:
    """`old_state_dict = model.state_dict`, when only the patch called it."""
    module = porting.module
    parent = module.parents[use.outer]
    if use.kind != "read" or not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return
    target = parent.targets[0].target
    if not isinstance(target, cst.Name):
        return
    places = [module.span(name)[0] for name in module.loads(target.value)]
    if all(any(edit.start <= place < edit.end for edit in porting.edits) for place in places):
        porting.remove_statement(use.outer, RULE, REASON)
