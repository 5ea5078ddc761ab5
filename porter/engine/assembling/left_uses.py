"""What is left of an import: whether uses come behind it, and whether they need torch."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from ...source.calls import function_around
from ...source.module import Module

# Modules of transformers that import torch, whatever is taken from them (5.12).
NEEDS_TORCH = re.compile(
    r"transformers\.(trainer|trainer_pt_utils|trainer_seq2seq|trainer_optimizer|modeling_(utils|outputs|layers)|pytorch_utils"
    r"|optimization|activations|cache_utils|generation\.(utils|logits_process|stopping_criteria)"
    r"|models\.\w+\.modeling_\w+)"
)
# Classes and functions of transformers that import without torch, and raise without it when they are called.
CALLS_TORCH = re.compile(
    r"AutoModel\w*|\w+For(CausalLM|ConditionalGeneration|SequenceClassification|TokenClassification)|pipeline"
)


def is_behind(module: Module, use: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether a use may come after a statement: it stands below, or in a function."""
    return module.span(use)[0] > module.span(statement)[0] or function_around(module, use) is not None


def first_of(statement: cst.CSTNode) -> cst.CSTNode:
    """What stands first in a line of statements; any other node itself."""
    return statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement


def alias_name(alias: cst.ImportAlias) -> str:
    """The name that an alias of an import binds."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    node: cst.BaseExpression = alias.name
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def needs_torch(
    module: Module, imported: cst.CSTNode, alias: cst.ImportAlias, left: Sequence[cst.BaseExpression]
) -> bool:
    """Whether what is left of an import of transformers needs torch, to be imported or to be called."""
    named = module_of(module, imported, alias)
    if NEEDS_TORCH.fullmatch(named):
        return True
    if named != "transformers" or not CALLS_TORCH.fullmatch(module.code(alias.name)):
        return False
    holders = [module.parents[use] for use in left]
    owners = [module.parents[holder] for holder in holders if isinstance(holder, cst.Attribute)]
    return any(isinstance(holder, cst.Call) for holder in (*holders, *owners))


def module_of(module: Module, imported: cst.CSTNode, alias: cst.ImportAlias) -> str:
    """The module that an alias of the statement `imported` is imported from, with the dots of a relative one."""
    if isinstance(imported, cst.ImportFrom):
        dots = "." * len(imported.relative)
        return dots + (module.code(imported.module) if imported.module is not None else "")
    return module.code(alias.name)
