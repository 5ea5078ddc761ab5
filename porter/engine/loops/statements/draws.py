"""Batches that a training loop draws by itself: `batch = next(batches)`, and `batches = iter(loader)` when they end."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from ....source.module import Module
from ....source.scopes import walk
from .blocks import lines_of
from .counts import Counts, modulo_of

ENDED = "StopIteration"


@dataclass(frozen=True)
class Draws:
    """`batch = next(iterator)`, where the iterator is always `iter(loader)`."""

    batch: str
    iterator: str
    loader: cst.BaseExpression

    def is_part(self, module: Module, line: cst.CSTNode, counts: Counts) -> bool:
        """Whether a statement draws the batch, or begins a new pass over the loader when the old one is over."""
        if self._draws(module, line) or self._begins(module, line):
            return True
        if isinstance(line, cst.Try):
            handler = line.handlers[0] if len(line.handlers) == 1 else None
            caught = module.code(handler.type) if handler is not None and handler.type is not None else ""
            if handler is None or caught != ENDED or line.orelse is not None or line.finalbody is not None:
                return False
            again = lines_of(handler.body)
            goes_on = any(self._begins(module, each) for each in again)
            goes_on = goes_on and any(self._draws(module, each) for each in again)
            return goes_on and [self._draws(module, each) for each in lines_of(line.body)] == [True]
        if (
            isinstance(line, cst.If)
            and line.orelse is None
            and all(self._begins(module, e) for e in lines_of(line.body))
        ):
            part = modulo_of(line.test)
            counter = counts.value(part.left) if part is not None else None
            whole = part is not None and module.code(part.right) == f"len({module.code(self.loader)})"
            return whole and counter is not None and counter.ahead == -1
        return False

    def _draws(self, module: Module, line: cst.CSTNode) -> bool:
        return module.code(line).split("#")[0].strip() == f"{self.batch} = next({self.iterator})"

    def _begins(self, module: Module, line: cst.CSTNode) -> bool:
        return module.code(line).split("#")[0].strip() == f"{self.iterator} = iter({module.code(self.loader)})"


def drawn_by_next(module: Module, statement: cst.For | cst.While) -> Draws | None:
    """What `next` draws in a loop over the numbers of batches; None where it draws nothing, or from something else."""
    for node in walk(statement.body):
        if not isinstance(node, cst.Assign) or not isinstance(node.targets[0].target, cst.Name):
            continue
        call = node.value
        if not isinstance(call, cst.Call) or module.code(call.func) != "next" or len(call.args) != 1:
            continue
        iterator = call.args[0].value
        found = module.meaning(iterator)
        values = [binding.value for binding in found[1]] if found is not None else []
        if not values or not isinstance(iterator, cst.Name):
            return None
        loaders = [_of_iter(module, each) for each in values]
        first = loaders[0]
        if first is None or any(each is None or module.code(each) != module.code(first) for each in loaders):
            return None
        return Draws(node.targets[0].target.value, iterator.value, first)
    return None


def _of_iter(module: Module, node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The loader of `iter(loader)`."""
    made = isinstance(node, cst.Call) and module.code(node.func) == "iter" and len(node.args) == 1
    return node.args[0].value if made and isinstance(node, cst.Call) else None
