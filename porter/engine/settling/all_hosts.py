"""`if trainer.is_world_process_zero(): trainer.save_model(...)`: what all hosts must do together stands under no such
condition.

A host holds a part of the weights only. What saves, merges, trains or samples gathers them on every host, writes on the
first one, and waits for the others: under `if jax.process_index() == 0` they never come.
"""

from __future__ import annotations

import re

import libcst as cst

from ..script.porting import TRAINING, Porting
from ..steps.step import Phase, step
from .kept_branch import keep_branch

RULE = "TP535"
REASON = "every host takes part in it; the first one writes"
FIRST = r"\(?jax\.process_index\(\) (?:== 0|in \((?:0, -1|-1, 0)\)|in \[(?:0, -1|-1, 0)\]|< 1|<= 0)\)?"
# What of the runtime all hosts call.
TOGETHER = frozenset(
    "save_adapter save_model save_gguf merge_and_unload save_pretrained generate evaluate load_best".split()
)


@step(Phase.SETTLE, settles=("conditions",))
def take_all_hosts(porting: Porting) -> None:
    """Such an `if` gives its lines to all hosts, where they hold such a call and nothing else is decided."""
    module = porting.module
    together = {f"{porting.names.runtime}.{name}" for name in TOGETHER}
    for holder in [node for node in module.parents if isinstance(node, cst.If)]:
        test = porting.code_now(holder.test)
        rest = _rest(test)
        if rest is None:
            continue
        start, stop = module.span(holder.body)
        inside = [edit for edit in porting.edits if start <= edit.start <= stop]
        if not any(edit.part == TRAINING or not together.isdisjoint(edit.calls) for edit in inside):
            continue
        asked = porting.within(holder.test)
        porting.edits = [edit for edit in porting.edits if edit not in asked]
        if rest or holder.orelse is not None or not keep_branch(porting, holder, True, RULE, REASON):
            porting.edit(*module.span(holder.test), rest or "True", RULE, REASON)


def _rest(test: str) -> str | None:
    """What a condition asks beside whether this is the first process: "" for nothing, None where it doesn't ask."""
    if re.fullmatch(FIRST, test):
        return ""
    for form in (rf"{FIRST} and (?P<rest>.+)", rf"(?P<rest>.+) and {FIRST}"):
        found = re.fullmatch(form, test, re.DOTALL)
        if found is not None and " or " not in test:
            return found["rest"]
    return None
