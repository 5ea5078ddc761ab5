"""find_all_linear_names: a function of the script that names all linear layers → "all-linear".

What it does: a function that goes through `model.named_modules()`, keeps the instances of torch's or bitsandbytes'
Linear and returns the last parts of their names without the head; its calls become PEFT's name for the same layers. One
that keeps those that a list of its names (`if last in ("q_proj", "v_proj")`) becomes the names that the families have.
Why: QLoRA scripts carry this function since before PEFT had the name; Tunix's model has no such modules.
Safety: exact for the families that port.
"""

from __future__ import annotations

import ast
import re

import libcst as cst

from porter.packs.api import Phase, Porting, Value, step
from porter.packs.script import Module, Unknown, calls_of, evaluate, inside, origins
from porter.packs.training import Training
from porter.packs.writing import quoted

ID = "TP203"

ALL = '"all-linear"'
SIGNS = (r"\.named_modules\(\)", r"\bisinstance\(", r"\bLinear(4bit|8bitLt)?\b", r"\.split\(", r"\breturn\b")
# The linear layers of a decoder layer, which every family has by these names.
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
HEADS = frozenset({"lm_head", "embed_tokens", "embed_out", "output_layer", "score"})
WITHOUT_HEAD = r"lm_head|output_layer|Linear4bit|Linear8bitLt"  # bitsandbytes never holds the head
REASONS = ("the layers of the list that the families have", "PEFT's name for all linear layers but the head")


def collected_linears(porting: Training, function: cst.FunctionDef) -> str:
    """The code of target_modules for a function of the script that returns the names of linear layers, all but the
    head or those of a list, and does nothing else; empty for another.

    One that loads a model or trains does more, and so does one around such a function.
    """
    module = porting.module
    code = module.code(function)
    if not all(re.search(sign, code) for sign in SIGNS):
        return ""
    does_more = any(isinstance(node, cst.FunctionDef | cst.ClassDef) for node in inside(function.body))
    if does_more or any(function in module.ancestors(site.node) for site in porting.sites):
        return ""
    listed = _listed(module, function)
    if not listed:
        return ALL if re.search(WITHOUT_HEAD, code) else ""
    names = [name for name in LAYERS if name in listed]
    return f"[{', '.join(map(quoted, names))}]" if names and HEADS.isdisjoint(listed) else ""


def _listed(module: Module, function: cst.FunctionDef) -> frozenset[str]:
    """The names that a function keeps: those of the one list that `last in names` asks; none where it asks others."""
    found = []
    for node in inside(function.body):
        if isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, cst.In | cst.NotIn):
            try:
                names = evaluate(module, node.comparator)
            except Unknown:
                return frozenset()
            if not isinstance(node.operator, cst.In) or not isinstance(names, set | frozenset | list | tuple):
                return frozenset()
            found.append(frozenset(map(str, names)))
    return found[0] if len(found) == 1 else frozenset()


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
