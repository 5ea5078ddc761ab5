"""`if False:` blocks, by which notebooks offer what to do next: they never run, so they make and load nothing."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from ...source.module import Module

DECIDED_TRIES = "tries of which the release decides what runs"  # of the module's memory


def is_dead(module: Module, node: cst.CSTNode) -> bool:
    """Whether a node stands in the body of an `if False:`, of a `try` that the release refuses, or of the
    `except` behind one that it takes."""
    dead: dict[cst.CSTNode, bool] = module.memory.setdefault("dead", {})
    tries: Mapping[cst.CSTNode, bool] = module.memory.get(DECIDED_TRIES, {})
    path = []
    while node not in dead:
        path.append(node)
        parent = module.parents.get(node)
        is_refused = isinstance(parent, cst.Try) and parent.body is node and tries.get(parent) is False
        is_behind = isinstance(node, cst.ExceptHandler) and parent is not None and tries.get(parent) is True
        is_off = isinstance(parent, cst.If) and parent.body is node and is_false(parent.test)
        if parent is None or is_off or is_refused or is_behind:
            dead[node] = parent is not None
        else:
            node = parent
    dead |= dict.fromkeys(path, dead[node])
    return dead[node]


def is_false(test: cst.BaseExpression) -> bool:
    """Whether a condition is `False` itself."""
    return isinstance(test, cst.Name) and test.value == "False"
