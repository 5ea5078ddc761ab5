"""A step at its turn: the engine's own, or a pack's, which may be left out and make mistakes.

A step of somebody's pack that raises, reads what it doesn't declare, or edits what is replaced already, changes
nothing: a finding names the rule or
the pack, the file and the line, and the script is ported without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...safety.limits import frames_of
from ...tables import rules_folder
from ..script.declared_reads import Undeclared, watching
from ..script.porting import Porting
from ..script.training import Training
from ..steps.step import Phase, Step
from .python_rules import BeyondClaim, restored, snapshot


def take(porting: Training, step: Step, steps: Sequence[Step] = ()) -> None:
    """Run a step, as far as its rule takes part; `steps` are those of its phase."""
    if step.rule and not porting.options.active(step.rule):
        return
    if step.path is None or _is_built_in(step.path):
        step.run(porting)
        return
    before, count = snapshot(porting), len(porting.edits) if isinstance(porting, Porting) else 0
    try:
        if step.phase is Phase.READ:
            with watching(steps) as watch:
                watch.watched(step).run(porting)
        else:
            step.run(porting)
        if isinstance(porting, Porting):
            _check_edits(porting, count)
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        if os.environ.get("TPU_PORT_TRACEBACK"):
            raise
        restored(porting, before)
        frames = [frame for frame in frames_of(error.__traceback__) if frame.f_code.co_filename == str(step.path)]
        place = f"{step.path}:{frames[0].f_lineno if frames else step.line}"
        what = str(error) if isinstance(error, BeyondClaim | Undeclared) else f"{type(error).__name__}: {error}"
        rule = f"Rule {step.rule} of pack" if step.rule else "Pack"
        message = f"{rule} {step.pack} made a mistake ({place}: {what}): its step is not taken."
        fix = f"Mend the rule, or leave it out with --ignore {step.rule}." if step.rule else "Mend the step."
        porting.find(step.rule or "TP199", "error", message, fix, 1, 1)


@cache
def _is_built_in(path: Path) -> bool:
    return path.is_relative_to(rules_folder())


def _check_edits(porting: Porting, count: int) -> None:
    """BeyondClaim where one of the edits from `count` on cuts into another."""
    for new in porting.edits[count:]:
        for edit in porting.edits:
            apart = new.end <= edit.start or edit.end <= new.start
            within = edit.start <= new.start and new.end <= edit.end
            nested = within or (new.start <= edit.start and edit.end <= new.end)
            if not apart and not nested:
                line = porting.module.line_column(new.start)[0]
                raise BeyondClaim(f"it edits line {line}, a part of which {edit.rule} replaces")
