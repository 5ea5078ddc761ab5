"""`find_all_linear_names(model)`: QLoRA scripts collect the names of all linear layers; PEFT calls that "all-linear".

The function goes through the torch model's modules for instances of bitsandbytes' or torch's Linear and returns the
last parts of their names, without the head. Its calls become the string, which PEFT has since release 0.8.
"""

from __future__ import annotations

import re

import libcst as cst

from ....recipe import Value
from ....source.calls import calls_of
from ....source.scopes import inside
from ...script.flow import origins
from ...script.porting import Porting
from ...script.sites import Site
from ...script.training import Training

RULE = "TP203"
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


def read_linear_names(porting: Training, config: Site) -> None:
    """`target_modules=find_all_linear_names(model)` is known: all linear layers."""
    given = config.argument("target_modules")
    if given is None or given.value.known:
        return
    for value in origins(porting.module, given.node):
        called = porting.module.callees.get(value) if isinstance(value, cst.Call) else None
        if called is not None and collects_linears(porting, called):
            porting.fill({"lora.targets": Value("literal", "'all-linear'", given.value.origin)})
            target = 'rt.apply_lora(targets="all-linear")'
            porting.change_fate(".target_modules", fate="exact", target=target, reason="")
            return


def write_linear_names(porting: Porting) -> None:
    """The calls become the string, and the function goes when nothing else uses it."""
    module = porting.module
    for function in dict.fromkeys(module.callees.values()):
        if not collects_linears(porting, function):
            continue
        calls = calls_of(module, function)
        for call in calls:
            start, end = module.span(call)
            porting.edit(start, end, ALL, RULE, "PEFT's name for all linear layers but the head")
        if len(module.loads(function.name.value)) == len(calls):
            porting.remove_statement(function, RULE, "it goes through the modules of a torch model")
