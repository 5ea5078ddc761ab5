"""`find_all_linear_names(model)`: QLoRA scripts collect the names of all linear layers; PEFT calls that "all-linear".

The function goes through the torch model's modules for instances of bitsandbytes' or torch's Linear and returns the
last parts of their names, without the head. Its calls become the string, which PEFT has since release 0.8.
"""

from __future__ import annotations

import re

import libcst as cst

from ....recipe import Value
from ....source.calls import calls_of, returned
from ....source.module import Module
from ....source.scopes import inside
from ...script.flow import origins
from ...script.porting import Porting
from ...script.sites import Site

RULE = "TP203"
ALL = '"all-linear"'
SIGNS = (r"\.named_modules\(\)", r"\bisinstance\(", r"\bLinear(4bit|8bitLt)?\b", r"\.split\(")
WITHOUT_HEAD = r"lm_head|output_layer|Linear4bit|Linear8bitLt"  # bitsandbytes never holds the head
CALLS = frozenset(
    """add append any discard endswith extend info debug isinstance issubclass join len list lower named_modules pop
    print remove rsplit set sorted split startswith str tuple type update warning""".split()
)  # all that collecting names calls


def collects_linears(module: Module, function: cst.FunctionDef) -> bool:
    """Whether a function of the script returns the names of all linear layers but the head, and does nothing else.

    A function that such a one stands in, or that trains besides, is another.
    """
    code = module.code(function)
    if not all(re.search(sign, code) for sign in SIGNS) or re.search(WITHOUT_HEAD, code) is None:
        return False
    nodes = list(inside(function.body))
    called = {module.code(node.func).rpartition(".")[2] for node in nodes if isinstance(node, cst.Call)}
    nested = any(isinstance(node, cst.FunctionDef | cst.ClassDef) for node in nodes)
    return not nested and called <= CALLS and bool(returned(module, function))


def read_linear_names(porting: Porting, config: Site) -> None:
    """`target_modules=find_all_linear_names(model)` is known: all linear layers."""
    given = config.argument("target_modules")
    if given is None or given.value.known:
        return
    for value in origins(porting.module, given.node):
        called = porting.module.callees.get(value) if isinstance(value, cst.Call) else None
        if called is not None and collects_linears(porting.module, called):
            porting.fill({"lora.targets": Value("literal", "'all-linear'", given.value.origin)})
            target = 'rt.apply_lora(targets="all-linear")'
            porting.change_fate(".target_modules", fate="exact", target=target, reason="")
            return


def write_linear_names(porting: Porting) -> None:
    """The calls become the string, and the function goes when nothing else uses it."""
    module = porting.module
    for function in dict.fromkeys(module.callees.values()):
        if not collects_linears(module, function):
            continue
        calls = calls_of(module, function)
        for call in calls:
            start, end = module.span(call)
            porting.edit(start, end, ALL, RULE, "PEFT's name for all linear layers but the head")
        if len(module.loads(function.name.value)) == len(calls):
            porting.remove_statement(function, RULE, "it goes through the modules of a torch model")
