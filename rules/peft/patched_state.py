"""Adapters that PEFT saves without a tensor, since the script has replaced the model's state_dict.

    old_state_dict = model.state_dict
    model.state_dict = (lambda self, *_, **__: get_peft_model_state_dict(self, old_state_dict())).__get__(model, ...)

What PEFT saves is asked of the model's state_dict, so that the function runs twice. From 0.3 to 0.19 it takes the
adapter's name out of the tensors' and keeps those alone that have it: nothing the second time. The Trainer's best
checkpoint is as empty, and loading it changes nothing.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import version_key

from .adapter_types import peft_release

PART_OF = "peft"
RULE = "TP112"
FUNCTION = "get_peft_model_state_dict"
EMPTY = ((0, 3, 0), (0, 20, 0))


@step(Phase.WRITE, of="trainer", reads=("written",), fills=("said",))
def say_empty_adapters(porting: Porting) -> None:
    """A finding where the GPU run's adapters and checkpoints hold nothing, and the port's what is trained."""
    if FUNCTION not in porting.module.text:
        return
    patch = next((node for node in porting.module.parents if _is_patch(porting, node)), None)
    release = peft_release(porting) if patch is not None else None
    if patch is None or release is None or not EMPTY[0] <= version_key(release) < EMPTY[1]:
        return
    message = f"PEFT {release} saves an adapter without tensors where state_dict is replaced so (0.3 to 0.19 do)"
    best = porting.value("save.best_at_end")
    if best is not None and not best.is_literal(False, None):
        message += ", and load_best_model_at_end leaves the last weights there; the port saves what is trained"
        message += ", and goes back to the best."
    else:
        message += "; the port saves what is trained."
    line, column = porting.module.location(patch)
    porting.find(RULE, "info", message, "Compare no files of the GPU run's with the port's.", line, column)


def _is_patch(porting: Porting, node: cst.CSTNode) -> bool:
    """`model.state_dict = ...get_peft_model_state_dict(...)...`"""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0].target
    replaces = isinstance(target, cst.Attribute) and target.attr.value == "state_dict"
    return replaces and FUNCTION in porting.module.code(node.value)
