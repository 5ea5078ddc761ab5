"""find_all_linear_names: a function of the script that names linear layers → "all-linear", or their names.

What it does: a function that goes through `model.named_modules()`, keeps instances of torch's or bitsandbytes' Linear
and returns their names without the head; its calls become PEFT's name for all of these. One that chooses among them
(`if last in ("q_proj", "v_proj")`, `if "mlp" in name: continue`) becomes the names that it chooses, and one that takes
no head out those of all layers and the head, which gets adapters, too.
Why: QLoRA scripts carry this function since before PEFT had the name; Tunix's model has no such modules.
Safety: exact for the families that port. A function that does more, or whose choice only the run knows, stays.
"""

from __future__ import annotations

import ast
import re

import libcst as cst

from porter.packs.api import Phase, Porting, Value, step
from porter.packs.script import calls_of, inside, origins
from porter.packs.training import Training
from porter.packs.writing import quoted

from ._collected_names import LAYERS, collected_layers

ID = "TP203"

ALL = '"all-linear"'
SIGNS = (r"\.named_modules\(\)", r"\bisinstance\(", r"\breturn\b")
REASONS = ("the linear layers that the function chooses", "PEFT's name for all linear layers but the head")


def collected_linears(porting: Training, function: cst.FunctionDef) -> str:
    """The code of target_modules for a function of the script that returns the names of linear layers, and does
    nothing else; empty for another.

    One that loads a model or trains does more, and so does one around such a function.
    """
    module = porting.module
    if not all(re.search(sign, module.code(function)) for sign in SIGNS):
        return ""
    does_more = any(isinstance(node, cst.FunctionDef | cst.ClassDef) for node in inside(function.body))
    if does_more or any(function in module.ancestors(site.node) for site in porting.sites):
        return ""
    names = collected_layers(module, function)
    return ALL if names == LAYERS else f"[{', '.join(map(quoted, names))}]" if names else ""


@step(Phase.READ, of="trainer", reads=("lora",), settles=("lora.targets",))
def read_linear_names(porting: Training) -> None:
    """`target_modules=find_all_linear_names(model)` of a LoraConfig is known: all linear layers."""
    config = porting.lora
    given = config.argument("target_modules") if config is not None and config.role == "lora" else None
    if given is None or given.value.known:
        return
    for value in origins(porting.module, given.node):
        called = porting.module.callees.get(value) if isinstance(value, cst.Call) else None
        names = collected_linears(porting, called) if called is not None else ""
        if names:
            code = repr(ast.literal_eval(names))
            porting.fill({"lora.targets": Value("literal", code, given.value.origin)})
            target = f"rt.apply_lora(targets={names})"
            porting.change_fate(".target_modules", fate="exact", target=target, reason="")
            return


@step(Phase.WRITE, of="trainer")
def write_linear_names(porting: Porting) -> None:
    """The calls become the string, and the function goes when nothing else uses it."""
    module = porting.module
    for function in dict.fromkeys(module.callees.values()):
        names = collected_linears(porting, function)
        if not names:
            continue
        calls = calls_of(module, function)
        for call in calls:
            start, end = module.span(call)
            porting.edit(start, end, names, ID, REASONS[names == ALL])
        if len(module.loads(function.name.value)) == len(calls):
            porting.remove_statement(function, ID, "it goes through the modules of a torch model")
