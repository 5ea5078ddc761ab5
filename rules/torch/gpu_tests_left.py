"""`torch.cuda.is_available()` left in the port: named, and an error where it decides what the training takes."""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import inside

from .cuda_available import AVAILABLE, decision, gives_none, known_value, places, small

PART_OF = "TP526"


@step(Phase.NAME, reads=("columns",), fills=("gpu tests",))
def name_gpu_tests(porting: Porting) -> None:
    """A warning for every question that is left in the port; an error where it decides what the training takes."""
    if "cuda.is_available" not in porting.module.text:
        return
    for call in porting.module.calls:
        if porting.module.qualified(call.func) == AVAILABLE and not porting.covered(porting.module.span(call)[0]):
            message = "torch.cuda.is_available() is False on a TPU machine, where this stands as it was."
            line, column = porting.module.location(call)
            decides, chosen = _decided(porting, call), porting.module.parents[decision(porting, call)]
            if isinstance(chosen, cst.IfExp) and isinstance(porting.module.parents[chosen], cst.Arg):
                if places(porting, chosen) and known_value(porting, chosen.test) is True:
                    continue  # torch is told the CPU's place
            if _tells_caller(porting, call):
                message = (
                    f"{message[:-1]}: the function ends here, or tells its caller, which ends the port or changes it."
                )
                porting.find(PART_OF, "error", message, "Let it answer what it did on the GPU.", line, column)
            elif decides:
                message = f"{message[:-1]}: it decides {', '.join(decides)}, which the training takes."
                porting.find(PART_OF, "error", message, "Give what the GPU run had.", line, column)
            else:
                porting.find(PART_OF, "warning", message, "Check what it decides.", line, column)


def _tells_caller(porting: Porting, call: cst.Call) -> bool:
    """Whether an `if` on a GPU that isn't there makes a function give back False, or ends it before it trains."""
    module, test = porting.module, decision(porting, call)
    holder = module.parents[test]
    if not isinstance(holder, cst.If) or holder.test is not test or known_value(porting, test) is not False:
        return False
    last = list(small(holder.body))[-1:]
    return any(isinstance(line, cst.Return) and gives_none(porting, line) for line in last)


def _decided(porting: Porting, call: cst.Call) -> list[str]:
    """Names that an `if` on a GPU gives a value, and that the trainer's settings read."""
    module = porting.module
    test = decision(porting, call)
    holder = module.parents[test]
    if not isinstance(holder, cst.If) or holder.test is not test:
        return []
    calls = [site.node for site in porting.sites if site.role in ("arguments", "lora", "quantization")]
    found = {}
    for node in inside(holder):
        target = node.targets[0].target if isinstance(node, cst.Assign) else None
        meaning = module.meaning(target) if isinstance(target, cst.Name) else None
        if isinstance(target, cst.Name) and meaning is not None:
            uses = module.references(target.value, meaning[0])
            if any(item in calls for use in uses for item in module.ancestors(use)):
                found[target.value] = True
    return list(found)
