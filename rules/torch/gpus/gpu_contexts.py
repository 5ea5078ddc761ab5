"""`with torch.backends.cuda.sdp_kernel(...): trainer.train()`: the mesh is the context that training needs.

Contexts that choose a GPU's kernels, or how it multiplies, go; autocast is what `bf16=True` asks for, too.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import within
from porter.packs.writing import TRAINER, TRAINING, under_autocast

PART_OF = "torch"
RULE = "TP111"
KERNELS = frozenset(
    """
    torch.backends.cuda.sdp_kernel torch.nn.attention.sdpa_kernel torch.autograd.set_detect_anomaly
    torch.autograd.detect_anomaly torch.backends.cudnn.flags torch.cuda.device contextlib.nullcontext
    """.split()
)
AUTOCAST = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})
REASON = "a TPU has none of these kernels; training needs the mesh"


@step(Phase.ANSWER, fills=("claimed names",))
def share_mesh(porting: Porting) -> None:
    """Such a context around a call of train() is the mesh's, which the call needs none of its own then."""
    module = porting.module
    for node in module.parents:
        if isinstance(node, cst.With) and (names := _contexts(porting, node)):
            inside = [edit for edit in porting.edits if within(edit.start, [module.span(node)])]
            makes = any(edit.part == TRAINER for edit in inside)
            if makes or not porting.take_header(TRAINING, f"with {porting.names.mesh}", node):
                continue
            first, last = node.items[0].item, node.items[-1].item
            porting.edit(module.span(first)[0], module.span(last)[1], porting.names.mesh, RULE, REASON)
            if names & AUTOCAST and not under_autocast(porting):
                code = module.code(first)
                message = f"{code}: the source multiplies in it, and the arguments don't ask for it; the port doesn't."
                fix = "Set bf16=True in the arguments, and port again."
                porting.find(RULE, "warning", message, fix, *module.location(node), todo=True)


def _contexts(porting: Porting, node: cst.With) -> set[str]:
    """The names of a statement's contexts, where a TPU has a use for none of them."""
    names = {
        porting.module.qualified(item.item.func) or "" if isinstance(item.item, cst.Call) else "" for item in node.items
    }
    named = any(item.asname is not None for item in node.items) or porting.covered(porting.module.span(node)[0])
    return names if names <= KERNELS | AUTOCAST and not named else set()
