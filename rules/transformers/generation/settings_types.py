"""A variable that holds the model's type for settings alone: `dtype = model.dtype`, `bf16=dtype == torch.bfloat16`.

The port has written those settings by what they mean; the variable goes with its last use.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, role_uses

PART_OF = "TP346"
GONE = "the settings that read it are in the port"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def drop_types_of_settings(porting: Porting) -> None:
    """`dtype = model.dtype` goes where only replaced code reads it."""
    module = porting.module
    for use in list(role_uses(porting, "model")):
        target = _held_by(porting, use)
        found = module.meaning(target) if target is not None else None
        if target is None or found is None or len(found[1]) != 1 or porting.covered(module.span(use.outer)[0]):
            continue
        reads = [read for read in module.references(target.value, found[0]) if read is not target]
        written = {part for name in porting.written_names() for part in name.split(".")}
        if reads and target.value not in written and all(porting.covered(module.span(read)[0]) for read in reads):
            porting.remove_statement(use.outer, PART_OF, GONE)


def _held_by(porting: Porting, use: Use) -> cst.Name | None:
    """The variable that `model.dtype` is given to, and nothing else."""
    holder = porting.module.parents[use.outer]
    if use.chain != "dtype" or use.kind != "read" or not isinstance(holder, cst.Assign) or len(holder.targets) != 1:
        return None
    target = holder.targets[0].target
    return target if holder.value is use.outer and isinstance(target, cst.Name) else None
