"""Uses of the trainer and the model in code that is replaced, and whose new code repeats them.

`SFTConfig("out", max_length=model.config.max_position_embeddings)` goes, and its value stands where the port makes its
batches; `trainer.save_model(f"out/{trainer.state.global_step}")` is another call of the same folder.
"""

from __future__ import annotations

from ..script.porting import Porting
from ..script.sites import shortened
from ..script.uses_of_training import Use, role_uses
from ..steps.step import Phase, step

# What Tunix's trainer has by the name that transformers' has it, or takes along.
HAS = frozenset({"@trainer.model", "@trainer.optimizer", "@trainer.processing_class"})


@step(Phase.NAME, of="trainer", reads=("checkpoints", "checkpoint paths"))
def name_repeated(porting: Porting) -> None:
    """An error for what Tunix's trainer or model hasn't, and new code repeats."""
    module = porting.module
    for use in role_uses(porting) if porting.loop is None else ():
        if use.match in HAS or use.kind not in ("read", "call") or _is_carried(porting, use):
            continue
        if not porting.covered(module.span(use.name)[0]) or not porting.repeats(use.outer):
            continue
        line, column = _place(porting, use)
        if any(finding.severity == "error" and finding.line == line for finding in porting.findings):
            continue
        what = "Tunix's PeftTrainer" if use.role == "trainer" else "Tunix's model"
        message = f"{shortened(module.code(use.outer))}: {what} has no counterpart inside of another call."
        porting.find("TP190", "error", message, "Give it a name in front of the line, and port again.", line, column)


def _place(porting: Porting, use: Use) -> tuple[int, int]:
    """Where a use stands in the port: of a statement that goes, at the trainer."""
    goes = any(edit.removes for edit in porting.around(porting.module.span(use.name)[0]))
    if goes and porting.trainer is not None:
        return porting.trainer.line, porting.trainer.column
    return porting.module.location(use.name)


def _is_carried(porting: Porting, use: Use) -> bool:
    """Whether it is the arguments, which a trainer that is used elsewhere takes along."""
    carries = porting.arguments_object and porting.module.code(use.name) in porting.elsewhere
    return bool(carries) and use.match.startswith("@trainer.args.")
