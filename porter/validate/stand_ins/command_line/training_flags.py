"""Flags without which a script trains nothing: `if "--train" in sys.argv: train()`, `if args.train: fit(trainer)`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

TRAINER = re.compile(r"[Tt]rainer")


@dataclass(frozen=True)
class Flags:
    """`words` that are looked for in `sys.argv`, and `settings` of a parser that must hold."""

    words: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()

    def __or__(self, other: Flags) -> Flags:
        return Flags(self.words | other.words, self.settings | other.settings)

    def __len__(self) -> int:
        return len(self.words) + len(self.settings)


def training_flags(tree: ast.AST, modules: Sequence[ast.AST] = ()) -> Flags:
    """What must be given so that the training is reached, in the script or in a function of the project's `modules`: of
    the way with the fewest flags, so none where a way needs none."""
    held = [node for module in modules for node in ast.iter_child_nodes(module)]
    return _Reader([tree, *(node for node in held if isinstance(node, ast.FunctionDef | ast.ClassDef))]).found()


class _Reader:
    def __init__(self, trees: Sequence[ast.AST]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self.parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.trains: list[ast.Call] = []
        for node in nodes:
            if isinstance(node, ast.Call):
                self.calls[_name(node.func)].append(node)
                if _trains(node.func):
                    self.trains.append(node)

    def found(self) -> Flags:
        return self.least(self.trains, ()) or Flags()

    def least(self, calls: Sequence[ast.Call], above: tuple[str, ...]) -> Flags | None:
        """The fewest flags with which one of some calls is reached; None where they call each other."""
        ways = [way for call in calls if (way := self.guards(call, above)) is not None]
        return min(ways, key=len, default=None)

    def guards(self, node: ast.AST, above: tuple[str, ...]) -> Flags | None:
        """What the conditions around a call ask for, and those around the calls of its function."""
        found = Flags()
        while (parent := self.parents.get(node)) is not None:
            if isinstance(parent, ast.If) and node in parent.body:
                found |= _asked(parent.test)
            elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                if parent.name in above:
                    return None
                if calls := self.calls[parent.name]:
                    way = self.least(calls, (*above, parent.name))
                    return found | way if way is not None else None
            node = parent
        return found


def _trains(called: ast.expr) -> bool:
    """Whether a call trains: `trainer.train()`, `SFTTrainer(...).train()`, `loss.backward()`."""
    if not isinstance(called, ast.Attribute):
        return False
    return called.attr == "backward" or (
        called.attr == "train" and TRAINER.search(ast.unparse(called.value)) is not None
    )


def _asked(test: ast.expr) -> Flags:
    """What must be given for a condition to hold; nothing where it may hold without."""
    if isinstance(test, ast.BoolOp):
        parts = [_asked(part) for part in test.values]
        return reduce(or_, parts) if isinstance(test.op, ast.And) else min(parts, key=len)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) and _name(test.comparators[0]) == "argv":
        word = test.left.value if isinstance(test.left, ast.Constant) else None
        return Flags(frozenset({word})) if isinstance(word, str) else Flags()
    if isinstance(test, ast.Attribute):
        return Flags(settings=frozenset({test.attr}))
    return Flags()


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
