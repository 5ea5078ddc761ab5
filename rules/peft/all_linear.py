"""find_all_linear_names: a function of the script that names all linear layers → "all-linear".

What it does: a function that goes through `model.named_modules()`, keeps the instances of torch's or bitsandbytes'
Linear and returns the last parts of their names without the head; its calls become PEFT's name for the same layers.
Why: QLoRA scripts carry this function since before PEFT had the name; Tunix's model has no such modules.
Safety: exact for the families that port.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, Value, step
from porter.packs.script import calls_of, inside, origins
from porter.packs.training import Training

ID = "TP203"

ALL = '"all-linear"'
SIGNS = (r"\.named_modules\(\)", r"\bisinstance\(", r"\bLinear(4bit|8bitLt)?\b", r"\.split\(", r"\breturn\b")
WITHOUT_HEAD = r"lm_head|output_layer|Linear4bit|Linear8bitLt"  # bitsandbytes never holds the head


def collects_linears(porting: Training, function: cst.FunctionDef) -> bool:
    """Whether a function of the script returns the names of all linear layers but the head, and does nothing else.

    One that loads a model or trains does more, and so does one around such a function.
    """
    module = porting.module
    code = module.code(function)
    if not all(re.search(sign, code) for sign in SIGNS) or re.search(WITHOUT_HEAD, code) is None:
        return False
    does_more = any(isinstance(node, cst.FunctionDef | cst.ClassDef) for node in inside(function.body))
    return not does_more and not any(function in module.ancestors(site.node) for site in porting.sites)


@step(Phase.READ, of="trainer", reads=("lora",), settles=("lora.targets",))
def read_linear_names(porting: Training) -> None:
    """`target_modules=find_all_linear_names(model)` of a LoraConfig is known: all linear layers."""
    config = porting.lora
    given = config.argument("target_modules") if config is not None and config.role == "lora" else None
    if given is None or given.value.known:
        return
    for value in origins(porting.module, given.node):
        called = porting.module.callees.get(value) if isinstance(value, cst.Call) else None
        if called is not None and collects_linears(porting, called):
            porting.fill({"lora.targets": Value("literal", "'all-linear'", given.value.origin)})
            target = 'rt.apply_lora(targets="all-linear")'
            porting.change_fate(".target_modules", fate="exact", target=target, reason="")
            return


@step(Phase.WRITE, of="trainer")
def write_linear_names(porting: Porting) -> None:
    """The calls become the string, and the function goes when nothing else uses it."""
    module = porting.module
    for function in dict.fromkeys(module.callees.values()):
        if not collects_linears(porting, function):
            continue
        calls = calls_of(module, function)
        for call in calls:
            start, end = module.span(call)
            porting.edit(start, end, ALL, ID, "PEFT's name for all linear layers but the head")
        if len(module.loads(function.name.value)) == len(calls):
            porting.remove_statement(function, ID, "it goes through the modules of a torch model")
