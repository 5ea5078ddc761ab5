"""`is_deepspeed_zero3_enabled()`: there is no DeepSpeed on a TPU, and what it decides is decided so."""

from __future__ import annotations

import libcst as cst

from ...script.porting import Porting
from ...settling.decisions import decide
from ...steps.step import Phase, step

RULE = "TP527"
ASKED = "is_deepspeed_zero3_enabled"
REASON = "there is no DeepSpeed on a TPU"


# A branch whose last line gathered the weights to save them goes whole, so it has to be known that the line went.
@step(Phase.ANSWER, reads=("gathered weights",), fills=("claimed names",))
def answer_zero_tests(porting: Porting) -> None:
    """Every condition that asks for DeepSpeed's ZeRO-3 is decided, or loses that part of it."""
    module = porting.module
    if ASKED not in module.text or not porting.options.active(RULE):
        return
    for call in [call for call in module.calls if _asks(porting, call)]:
        decide(porting, call, lambda node: False if _asks(porting, node) else None, RULE, REASON)


def _asks(porting: Porting, node: cst.CSTNode) -> bool:
    name = porting.module.qualified(node.func) if isinstance(node, cst.Call) else None
    return name is not None and name.startswith("transformers.") and name.endswith(f".{ASKED}")
