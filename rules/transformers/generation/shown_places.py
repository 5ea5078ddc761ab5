"""Lines that show where the model lies, or its type: `print(model.device)`, `print(next(model.parameters()).dtype)`.

A log names the first device, `jax.devices()[0]`, all of them for `model.hf_device_map`, and the type of the first
weight. What torch makes beside the model, `torch.tensor(ids, device=model.device)`, it makes on the host. So does a
variable that only says where inputs go, `device = next(model.parameters()).device`; it goes with the last of them.
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
OF_TRAINER = ("accelerator.device", "args.device", "model.device")
HOST, ON_HOST = '"cpu"', "torch holds it on the host"


@step(Phase.ANSWER, of="trainer", fills=("claimed uses",))
def answer_shown_places(porting: Porting) -> None:
    """Places and types of the model that a line only shows, and places of inputs."""
    for use in list(role_uses(porting)):
        found = _asked(porting, use)
        if found is None or porting.covered(porting.module.span(found)[0]):
            continue
        if _is_of_tensor(porting, found) or _only_moves(porting, found):
            porting.edit(*porting.module.span(found), HOST, PART_OF, ON_HOST)
            continue
        if not is_shown(porting, found):
            continue
        new, imports = shown_value(found.attr.value, porting.module.code(use.name))
        porting.imports.update(imports)
        porting.edit(*porting.module.span(found), new, PART_OF, REASON)


@step(Phase.ANSWER, of="trainer", reads=("answered uses",))
def drop_held_places(porting: Porting) -> None:
    """A variable of a place to which nothing is moved any more."""
    for use in list(role_uses(porting)):
        found = _asked(porting, use)
        uses = _uses_of_held(porting, found) if found is not None else []
        if found is not None and uses and all(porting.covered(porting.module.span(node)[0]) for node in uses):
            if _only_moves(porting, found) and not porting.is_gone(porting.module.statement(found)):
                porting.remove_statement(found, PART_OF, ON_HOST)


def shown_value(asked: str, model: str) -> tuple[str, tuple[str, ...]]:
    """What a line shows for a model's `device`, `hf_device_map` or `dtype`, and the imports that it needs."""
    if asked != "dtype":
        return "jax.devices()" if asked == MAP else "jax.devices()[0]", ("import jax",)
    return f"jax.tree.leaves(nnx.state({model}, nnx.Param))[0].dtype", ("import jax", "from flax import nnx")


def _asked(porting: Porting, use: Use) -> cst.Attribute | None:
    """`model.device`, `model.hf_device_map`, or `next(model.parameters()).device`."""
    module = porting.module
    known = OF_TRAINER if use.role == "trainer" else (*ATTRIBUTES, MAP)
    node: cst.CSTNode | None = use.outer if use.chain in known and use.kind == "read" else None
    if use.match in ("@model.parameters()", "@trainer.model.parameters()"):
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


def _uses_of_held(porting: Porting, node: cst.Attribute) -> list[cst.BaseExpression]:
    """The uses of the variable that holds a value, where that alone is assigned to it."""
    module, assign = porting.module, porting.module.parents[node]
    target = assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
    found = module.meaning(target) if isinstance(target, cst.Name) else None
    if not isinstance(target, cst.Name) or found is None or len(found[1]) != 1:
        return []
    return [use for use in module.references(target.value, found[0]) if use is not target]


def _only_moves(porting: Porting, node: cst.Attribute) -> bool:
    """Whether a device is held by a variable to which things are moved, and no more."""
    uses = _uses_of_held(porting, node)
    return node.attr.value == "device" and bool(uses) and all(_moves(porting, use) for use in uses)


def _moves(porting: Porting, use: cst.BaseExpression) -> bool:
    """`inputs.to(device)`, `torch.tensor(ids, device=device)`."""
    module, argument = porting.module, porting.module.parents[use]
    call = module.parents[argument]
    if not isinstance(argument, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
        return True
    named = argument.keyword is not None and argument.keyword.value == "device"
    return named and (module.qualified(call.func) or "").startswith("torch.")


def is_shown(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a value goes into a line of output and nowhere else: `print(f"on {model.device}")`."""
    return is_shown_by(porting, node, LOGS)
