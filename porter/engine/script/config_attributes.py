"""Settings that a call takes from a LoraConfig of the file: `get_peft_model(model, bias=lora_config.bias)`.

What the object was given is what it holds, where nothing in the file changes it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import libcst as cst

from ...recipe import Value
from ...runtime.facts.field_tables import Row
from ...source.dictionaries.possible import depends
from ...source.dictionaries.told import told_by_files
from ...source.launch.launched_with import words_of_launches
from ...source.module import Module
from ...source.project.usual.ways import Unsure, usual_object
from ...source.read_value import read_value
from ...source.values import Unknown, evaluate
from .sites import OBJECTS, Argument, Site
from .training import Training

LAUNCHED = "the words of the project's commands"  # of `Module.memory`
FILES = {"mesh.zero"}  # places of files that are read when the script starts
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


def refused_usually(module: Module, argument: Argument, site: Site, row: Row) -> tuple[Value, str] | None:
    """What a keyword is unless the user says another, where that is refused when the port starts, and what says so.

    A file that the arguments read when the script starts is judged by what it holds.
    """
    if not row.judged_later or row.place in FILES:
        return None
    told = said_usually(module, argument, site)
    return told if told is not None and row.verdict(told[0].literal)[0] == "manual" else None


def said_usually(module: Module, argument: Argument, site: Site) -> tuple[Value, str] | None:
    """What a keyword of a config is unless the user says another, and what says so: the project's files of settings, or
    the default of an argument, a field or a parameter; None where it is known, or nothing tells."""
    if argument.value.known or site.role not in OBJECTS or not isinstance(site.node, cst.Call):
        return None
    node, told = argument.node, argument.beside
    if told is None and node is not None:
        told = told_by_files(module, node, site.node)
    try:
        if told is not None:
            return Value("literal", repr(evaluate(module, told))), "a file of the project says"
        if node is not None and argument.certain and not _is_launched_with(module, node):
            return Value("literal", repr(usual_object(module, node))), "its default is"
    except (Unknown, Unsure):
        pass
    return None


def _is_launched_with(module: Module, node: cst.BaseExpression) -> bool:
    """Whether a command of the project gives the flag that an attribute is."""
    name = node.attr.value if isinstance(node, cst.Attribute) else module.code(node)
    if LAUNCHED not in module.memory:
        module.memory[LAUNCHED] = words_of_launches(Path(module.path))
    return name in module.memory[LAUNCHED] or name.replace("_", "-") in module.memory[LAUNCHED]


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
