"""Variables that are set only where there is a GPU, and read elsewhere: the port ends there.

if torch.cuda.is_available():
    kind = torch.cuda.get_device_name(0)
print(kind)
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Binding, inside, speaks_of_gpu

from ..gpus_left._reached import is_reached
from ._gpu_questions import on_gpu
from ._lacking import is_asked

PART_OF = "TP526"
FIX = "Give it a value in front of the condition, or take out what needs it."


@step(Phase.NAME, reads=("gpu tests",), fills=("claimed names",))
def name_what_is_unset(porting: Porting) -> None:
    """An error at the first use of each."""
    module = porting.module
    if not speaks_of_gpu(module):
        return
    for holder in [node for node in module.parents if isinstance(node, cst.If)]:
        if porting.covered(module.span(holder.test)[0]) or not is_asked(porting, holder.test):
            continue
        if on_gpu(porting, holder.test) is not True:
            continue
        for name, bindings in module.scope(holder).bindings.items():
            read = _first_read(porting, holder, name, bindings)
            if read is not None:
                message = f"{name} is set only where there is a GPU: the port ends here on a TPU machine."
                porting.find(PART_OF, "error", message, FIX, *module.location(read))


def _first_read(porting: Porting, holder: cst.If, name: str, bindings: Sequence[Binding]) -> cst.CSTNode | None:
    """The first use behind an `if` of what its body alone sets, or in another function, where the port comes to it."""
    module, held = porting.module, {*inside(holder.body)}
    if not all(binding.node in held for binding in bindings):
        return None
    reads = [read for read in module.references(name, module.scope(holder)) if read not in held]
    (_, end), here = module.span(holder), module.scope(holder)
    behind = [read for read in reads if module.span(read)[0] >= end or module.scope(read) is not here]
    left = (read for read in behind if not porting.covered(module.span(read)[0]))
    return next((read for read in left if is_reached(porting, read)), None)
