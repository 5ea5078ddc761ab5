"""`if False:` blocks, by which notebooks offer what to do next: they never run, so they make and load nothing."""

from __future__ import annotations

import re

import libcst as cst

from ...source.module import Module
from ..steps.step import Phase, step
from .porting import Porting

RULE = "TP717"
REFUSED = "tries that the release refuses"  # of the module's memory
OF_UNSLOTH = r"\bunsloth\b|\bFast(?:Language)?Model\b|\.(?:save_pretrained|push_to_hub)_(?:merged|gguf)\("


def is_dead(module: Module, node: cst.CSTNode) -> bool:
    """Whether a node stands in the body of an `if False:`, or of a `try` whose first line the release refuses."""
    dead: dict[cst.CSTNode, bool] = module.memory.setdefault("dead", {})
    refused: frozenset[cst.Try] = module.memory.get(REFUSED, frozenset())
    path = []
    while node not in dead:
        path.append(node)
        parent = module.parents.get(node)
        is_refused = isinstance(parent, cst.Try) and parent.body is node and parent in refused
        is_off = isinstance(parent, cst.If) and parent.body is node and _is_false(parent.test)
        if parent is None or is_off or is_refused:
            dead[node] = parent is not None
        else:
            node = parent
    dead |= dict.fromkeys(path, dead[node])
    return dead[node]


@step(Phase.WRITE, of="trainer", fills=("dropped",))
def drop_dead_code(porting: Porting) -> None:
    """Take out the blocks that never run and would need Unsloth; others stay as they are."""
    module = porting.module
    if "unsloth" not in module.roots:
        return
    for node, parent in module.parents.items():
        if not isinstance(node, cst.If) or not _is_false(node.test) or node.orelse is not None:
            continue
        is_elif = isinstance(parent, cst.If) and parent.orelse is node
        if not is_elif and re.search(OF_UNSLOTH, module.code(node)):
            message = "This block never runs and would need Unsloth: it is taken out."
            porting.find(RULE, "info", message, "", *module.location(node))
            porting.remove_statement(node, RULE, "it never runs, and would need Unsloth")


def _is_false(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.Name) and test.value == "False"
