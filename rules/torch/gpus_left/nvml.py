"""What asks NVIDIA's driver: packages of NVML (`pynvml`, `GPUtil`) and the command nvidia-smi, left in the port.

What it does: what only tells of the GPU goes (TP513), with a star import that nothing uses any more. What is left of
such a package, and calls of nvidia-smi that raise without it, are named, where the port comes to them.
Why: a TPU machine has neither the driver nor its command, so that the port would end there, installed or not.
Example: `used = pynvml.nvmlDeviceGetMemoryInfo(handle).used`
Use instead: `tpu-port plan` for the memory, JAX's profiler for what a run takes, `tpu-info` for what chips do.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step

from ..gpus._drivers import driver_imports, ends_without_command, is_asked_first, is_of_star, names_driver
from ._reached import is_reached

ID = "TP539"
FIX = "Take it out, or put it into a `try` that says what holds without a GPU; `tpu-info` shows what TPU chips do."


@step(Phase.NAME, reads=("gpu tests",), anywhere=True)
def name_drivers_left(porting: Porting) -> None:
    """An error for every import of such a package that stays and every call of nvidia-smi that ends the port."""
    module = porting.module
    if not names_driver(module):
        return
    for node in [*driver_imports(module)]:
        if is_asked_first(porting, node) or not is_reached(porting, node):
            continue
        if not _is_needed(porting, node):
            if isinstance(node.names, cst.ImportStar):
                porting.remove_statement(node, ID, "a TPU machine has no such driver")
            continue
        shown = " ".join(module.code(node).split())
        message = f"{shown}: it asks NVIDIA's driver, which a TPU machine doesn't have: the port ends here."
        porting.find(ID, "error", message, FIX, *module.location(node))
    for call in module.calls:
        if porting.covered(module.span(call)[0]) or not ends_without_command(module, call):
            continue
        if not is_asked_first(porting, call) and is_reached(porting, call):
            message = "nvidia-smi: a TPU machine has no such command: the port ends here."
            porting.find(ID, "error", message, FIX, *module.location(call))


def _is_needed(porting: Porting, node: cst.Import | cst.ImportFrom) -> bool:
    """Whether the port uses what an import brings."""
    module, scope = porting.module, porting.module.scope(node)
    if isinstance(node.names, cst.ImportStar):
        names = (name for name in module.parents if isinstance(name, cst.Name))
        uses: list[cst.Name | cst.Attribute] = [name for name in names if is_of_star(module, name)]
    else:
        bound = [name for name, made in scope.bindings.items() if any(each.node is node for each in made)]
        uses = [use for name in bound for use in module.references(name, scope)]
    return any(not porting.covered(module.span(use)[0]) for use in uses)
