"""Whether a config's length is the model's own: the same expression, read in the function that loads the model.

def load(cfg): return FastLanguageModel.from_pretrained(..., max_seq_length=cfg["length"])
model, tokenizer = load(settings)
config = SFTConfig(max_length=settings["length"])
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Argument
from porter.packs.script import Module, argument_of, calls_of, function_around, inside, reaching
from porter.packs.training import Training


def is_same_length(porting: Training, own: Argument) -> bool:
    """Whether a keyword of the config says what the one call of the model's function gives for max_seq_length."""
    module, of_model = porting.module, porting.model.argument("max_seq_length") if porting.model is not None else None
    if of_model is None or not isinstance(of_model.node, cst.BaseExpression):
        return False
    if not isinstance(own.node, cst.BaseExpression):
        return False
    made = _written(module, of_model.node)
    function = function_around(module, of_model.node)
    calls = calls_of(module, function) if function is not None else []
    if len(calls) != 1 or function_around(module, calls[0]) is not function_around(module, own.node):
        return False
    text = module.code(made)
    for name in {name.value: name for name in _names(module, made)}.values():
        found = module.meaning(name)
        if found is None or found[0].node is not function:
            continue
        given = argument_of(module, calls[0], name.value)
        if [binding.kind for binding in found[1]] != ["parameter"] or not isinstance(given, cst.Name):
            return False
        if not _is_bound_once(module, given):
            return False
        text = re.sub(rf"""(?<![\w."']){name.value}\b""", given.value, text)
    return text == module.code(_written(module, own.node))


def _written(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression that a name was given by its one assignment, else the node itself."""
    found = reaching(module, node) if isinstance(node, cst.Name) else []
    value = found[0].value if [(each.kind, each.conditional) for each in found] == [("assign", False)] else None
    return value if value is not None else node


def _names(module: Module, node: cst.BaseExpression) -> list[cst.Name]:
    """The names that an expression reads."""
    found = [each for each in inside(node) if isinstance(each, cst.Name)]
    parents = [(each, module.parents[each]) for each in found]
    return [
        each
        for each, parent in parents
        if not (isinstance(parent, cst.Attribute) and parent.attr is each)
        and not (isinstance(parent, cst.Arg) and parent.keyword is each)
    ]


def _is_bound_once(module: Module, name: cst.Name) -> bool:
    found = module.meaning(name)
    return found is not None and len(found[1]) == 1
