"""New code for a part of the source, also where a call around it is replaced and its new code repeats that part:

trainer.save_model(f"out/{trainer.state.global_step}")
"""

from __future__ import annotations

from ...text.respelled import respelled
from ..script.porting import Porting
from ..script.sites import shortened
from ..script.uses_of_training import Use, role_uses
from ..steps.step import Phase, step

# What Tunix's trainer has by the name that transformers' has it, or takes along.
HAS = frozenset({"model", "optimizer", "train", "processing_class"})


def write_over(porting: Porting, span: tuple[int, int], new: str, rule: str, reason: str) -> None:
    """`new` in place of what stands at `span`."""
    start, end = span
    if not porting.covered(start):
        porting.edit(start, end, new, rule, reason)
        return
    code = porting.module.text[start:end]
    porting.edits[:] = [
        respelled(edit, code, new, operand=True) if edit.start <= start < edit.end else edit for edit in porting.edits
    ]


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def name_repeated(porting: Porting) -> None:
    """An error for what Tunix's trainer hasn't, and the new code of a call around it repeats."""
    module = porting.module
    for use in role_uses(porting, "trainer"):
        start = module.span(use.name)[0]
        if (
            use.chain in HAS
            or use.kind not in ("read", "call")
            or not porting.covered(start)
            or _is_carried(porting, use)
        ):
            continue
        line, column = module.location(use.name)
        if not porting.repeats(use.outer, edits=porting.around(start)):
            continue
        if any(finding.severity == "error" and finding.line == line for finding in porting.findings):
            continue
        message = f"{shortened(module.code(use.outer))}: Tunix's PeftTrainer has no counterpart inside of another call."
        porting.find("TP190", "error", message, "Give it a name in front of the line, and port again.", line, column)


def _is_carried(porting: Porting, use: Use) -> bool:
    """Whether it is the arguments, which a trainer that is used elsewhere takes along."""
    carries = porting.arguments_object and porting.module.code(use.name) in porting.elsewhere
    return bool(carries) and use.chain.startswith("args.")
