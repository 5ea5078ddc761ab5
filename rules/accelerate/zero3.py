"""is_deepspeed_zero3_enabled(): there is no DeepSpeed on a TPU.

What it does: decides what asks for it; a branch for ZeRO-3 goes, and so does that part of a longer condition.
Why: such a branch gathers weights that DeepSpeed has split, and needs DeepSpeed to import; JAX gathers them itself.
Example: `if is_deepspeed_zero3_enabled(): weights = trainer.model_wrapped._zero3_consolidated_16bit_state_dict()`
Safety: exact. What a ZeRO JSON asks of the training is read from the launch configuration.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import decide_condition

ID = "TP527"
ASKED = "is_deepspeed_zero3_enabled"
REASON = "there is no DeepSpeed on a TPU"


# A branch whose last line gathered the weights to save them goes whole, so it has to be known that the line went.
@step(Phase.ANSWER, reads=("gathered weights",), fills=("claimed names",))
def answer_zero_tests(porting: Porting) -> None:
    """Every condition that asks for DeepSpeed's ZeRO-3 is decided, or loses that part of it."""
    module = porting.module
    if ASKED not in module.text:
        return
    for call in [call for call in module.calls if _asks(porting, call)]:
        decide_condition(porting, call, lambda node: False if _asks(porting, node) else None, ID, REASON)


def _asks(porting: Porting, node: cst.CSTNode) -> bool:
    name = porting.module.qualified(node.func) if isinstance(node, cst.Call) else None
    return name is not None and name.startswith("transformers.") and name.endswith(f".{ASKED}")
