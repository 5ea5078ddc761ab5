"""Settings that a call takes from a LoraConfig of the file: `get_peft_model(model, bias=lora_config.bias)`.

What the object was given is what it holds, where nothing in the file changes it.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ...recipe import Value
from ...runtime.facts.field_tables import Row
from ...source.dictionaries.possible import depends
from ...source.dictionaries.told import told_by_files
from ...source.module import Module
from ...source.read_value import read_value
from ...source.values import Unknown, evaluate
from .sites import OBJECTS, Argument, Site
from .training import Training

HOLDS = "lora"  # the role of configs that hold what they are given


def held_value(porting: Training, argument: Argument) -> Value:
    """The value of an argument, with the literal that a config object of the file surely holds there."""
    module, node = porting.module, argument.node
    if argument.value.known or not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
        return argument.value
    found, binding = module.meaning(node.value), module.single_binding(node.value)
    if found is None or binding is None:
        return argument.value
    site = next((site for site in porting.of_role(HOLDS) if site.node is binding.value), None)
    given = site.argument(node.attr.value) if site is not None else None
    if given is None or not given.certain or not given.value.known:
        return argument.value
    if not all(_reads(porting, use) for use in module.references(node.value.value, found[0])):
        return argument.value
    return replace(given.value, text=argument.value.text)


def surely_held(module: Module, argument: Argument) -> Value | None:
    """The literal that a dictionary, which only the run puts together, surely has for a keyword."""
    node = argument.node
    if argument.certain or argument.value.known or node is None or depends(module, node):
        return None
    found = read_value(module, node)
    return found if found.known else None


def refused_beside(module: Module, argument: Argument, site: Site, row: Row) -> Value | None:
    """What the project's files of settings say a keyword is, which only the run reads, and refuses there."""
    if argument.value.known or not row.judged_later or site.role not in OBJECTS or not isinstance(site.node, cst.Call):
        return None
    told = argument.beside
    if told is None and argument.node is not None:
        told = told_by_files(module, argument.node, site.node)
    try:
        value = Value("literal", repr(evaluate(module, told))) if told is not None else None
    except Unknown:
        return None
    return value if value is not None and row.verdict(value.literal)[0] == "manual" else None


def _reads(porting: Training, use: cst.CSTNode) -> bool:
    """Whether a config is only read where it stands, or handed to a library."""
    module = porting.module
    parent = module.parents[use]
    around = module.parents[parent]
    if isinstance(parent, cst.Attribute):
        is_called = isinstance(around, cst.Call) and around.func is parent
        return not is_called and not isinstance(around, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.Del)
    if isinstance(parent, cst.Arg) and isinstance(around, cst.Call):
        return module.qualified(around.func) is not None or module.code(around.func) == "print"
    return False
