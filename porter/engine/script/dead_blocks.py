"""`if False:` blocks, by which notebooks offer what to do next: they never run, so they make and load nothing."""

from __future__ import annotations

import libcst as cst

from ...source.module import Module

REFUSED = "tries that the release refuses"  # of the module's memory


def is_dead(module: Module, node: cst.CSTNode) -> bool:
    """Whether a node stands in the body of an `if False:`, or of a `try` whose first line the release refuses."""
    dead: dict[cst.CSTNode, bool] = module.memory.setdefault("dead", {})
    refused: frozenset[cst.Try] = module.memory.get(REFUSED, frozenset())
    path = []
    while node not in dead:
        path.append(node)
        parent = module.parents.get(node)
        is_refused = isinstance(parent, cst.Try) and parent.body is node and parent in refused
        is_off = isinstance(parent, cst.If) and parent.body is node and is_false(parent.test)
        if parent is None or is_off or is_refused:
            dead[node] = parent is not None
        else:
            node = parent
    dead |= dict.fromkeys(path, dead[node])
    return dead[node]


def is_false(test: cst.BaseExpression) -> bool:
    """Whether a condition is `False` itself."""
    return isinstance(test, cst.Name) and test.value == "False"
