"""Lines that show where the model lies, or its type: `print(model.device)`, `print(next(model.parameters()).dtype)`.

A log names the first device, `jax.devices()[0]`, all of them for `model.hf_device_map`, and the type of the first
weight. What torch makes beside the model, `torch.tensor(ids, device=model.device)`, it makes on the host.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Use, role_uses

from .._shown import is_shown_by

PART_OF = "TP346"
REASON = "JAX places arrays by the mesh; a log line names the first device"
ATTRIBUTES = ("device", "dtype")
MAP = "hf_device_map"  # which GPU accelerate put each layer on
LOGS = frozenset({"print", "debug", "info", "warning", "error", "log", "str", "write"})


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def answer_shown_places(porting: Porting) -> None:
    """Places and types of the model that a line only shows."""
    for use in list(role_uses(porting, "model")):
        found = _asked(porting, use)
        if found is None or porting.covered(porting.module.span(found)[0]):
            continue
        if _is_of_tensor(porting, found):
            porting.edit(*porting.module.span(found), '"cpu"', PART_OF, "torch holds it on the host")
            continue
        if not is_shown(porting, found):
            continue
        new, imports = shown_value(found.attr.value, porting.module.code(use.name))
        porting.imports.update(imports)
        porting.edit(*porting.module.span(found), new, PART_OF, REASON)


def shown_value(asked: str, model: str) -> tuple[str, tuple[str, ...]]:
    """What a line shows for a model's `device`, `hf_device_map` or `dtype`, and the imports that it needs."""
    if asked != "dtype":
        return "jax.devices()" if asked == MAP else "jax.devices()[0]", ("import jax",)
    return f"jax.tree.leaves(nnx.state({model}, nnx.Param))[0].dtype", ("import jax", "from flax import nnx")


def _asked(porting: Porting, use: Use) -> cst.Attribute | None:
    """`model.device`, `model.hf_device_map`, or `next(model.parameters()).device`."""
    module = porting.module
    node: cst.CSTNode | None = use.outer if use.chain in (*ATTRIBUTES, MAP) and use.kind == "read" else None
    if use.chain == "parameters" and use.kind == "call":
        call = module.parents[module.parents[use.outer]]
        is_first = isinstance(call, cst.Call) and module.code(call.func) == "next" and len(call.args) == 1
        node = module.parents[call] if is_first else None
    if not isinstance(node, cst.Attribute) or node.attr.value not in (*ATTRIBUTES, MAP):
        return None
    return node


def _is_of_tensor(porting: Porting, node: cst.Attribute) -> bool:
    """Whether the model's device is where torch makes a tensor of its own."""
    module = porting.module
    argument = module.parents[node]
    call = module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call) or argument.keyword is None:
        return False
    by_torch = (module.qualified(call.func) or "").startswith("torch.")
    return by_torch and argument.keyword.value == "device" and node.attr.value == "device"


def is_shown(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a value goes into a line of output and nowhere else: `print(f"on {model.device}")`."""
    return is_shown_by(porting, node, LOGS)
