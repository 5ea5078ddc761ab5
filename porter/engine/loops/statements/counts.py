"""What numbers count in a training loop: batches of an epoch, batches of all epochs, optimizer steps.

`for step, batch in enumerate(loader)` and `step += 1` make counters. By them the optimizer steps at every n-th batch,
and the loop ends: `(step + 1) % n == 0` is true at the n-th batch, `step % n == 0` at the first one already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import libcst as cst

from ....source.module import Module
from ....source.scopes import walk
from .blocks import is_step
from .not_standard import NotStandard

DEPENDS = "when the optimizer steps depends on something else than the number of batches"


@dataclass
class Counter:
    """A number that grows by one: while the k-th batch or step (from 1) is trained it is k + `ahead`.

    `resets`: it begins anew with every epoch; `restarts`: with every optimizer step.
    """

    counts: Literal["batches", "steps"]
    ahead: int
    resets: bool = False
    restarts: bool = False

    def now(self) -> Counter:
        """The counter as it is at this line."""
        return replace(self)


@dataclass(frozen=True)
class End:
    """The loop ends after `limit` + `beyond` batches or steps of a counter.

    `equal`: it is asked with `==`; `may_be_none`: None means that it doesn't end so.
    """

    counter: Counter
    limit: cst.BaseExpression
    beyond: int
    equal: bool = False
    may_be_none: bool = False


class Counts:
    """The counters of a loop and the conditions on them; `flags` are the names of conditions: name → its code."""

    def __init__(self, module: Module, outer: cst.CSTNode, inner: cst.For | cst.While) -> None:
        self.module, self.outer, self.inner = module, outer, inner
        self.by_name: dict[str, Counter] = {}
        self.flags: dict[str, cst.BaseExpression] = {}
        self._grown: dict[cst.CSTNode, str] = {}
        for node in walk(inner.body):
            if is_increment(node):
                assert isinstance(node, cst.AugAssign)
                self._note(node, module.code(node.target))

    def enumerated(self, name: str, start: int) -> None:
        """`for name, batch in enumerate(loader, start)`."""
        self.by_name[name] = Counter("batches", start - 1, resets=self.outer is not self.inner)

    def ranged(self, name: str, start: int) -> None:
        """`for name in range(start, n)` over batches that `next` draws."""
        self.by_name[name] = Counter("batches", start - 1)

    def grow(self, node: cst.CSTNode) -> bool:
        """Whether a statement makes a counter grow, which is noted: what follows sees it grown."""
        name = self._grown.get(node)
        if name is not None:
            self.by_name[name].ahead += 1
        return name is not None

    def _note(self, node: cst.AugAssign, name: str) -> None:
        around = []
        for parent in self.module.ancestors(node):
            if parent is self.inner:
                break
            around.append(parent)
        if any(isinstance(parent, cst.For | cst.While | cst.Try | cst.Else) for parent in around):
            return
        conditions = [parent for parent in around if isinstance(parent, cst.If)]
        steps = [parent for parent in conditions if self._is_at_step(parent)]
        first, resets, restarts = self._begins(name)
        if first is None or len(steps) != len(conditions) or name in self._grown.values():
            self.by_name.pop(name, None)
            return
        self.by_name[name] = Counter("steps" if steps else "batches", first - 1, resets, restarts)
        self._grown[node] = name

    def _is_at_step(self, node: cst.If) -> bool:
        if self.module.code(node.test).endswith("sync_gradients"):
            return True
        return any(is_step(inner) for inner in walk(node.body))

    def _begins(self, name: str) -> tuple[int | None, bool, bool]:
        """The number that a counter begins with; whether it does with every epoch; whether with every step."""
        found = list(self._assigned(name))
        within = [node for node in found if self._is_in(node, self.inner)]
        before = [node for node in found if node not in within]
        certain = [node for node in before if not self._is_conditional(node)] or before  # others resume a run
        numbers = {self.module.code(node.value) for node in (*certain, *within) if node.value is not None}
        restarts = bool(within) and all(self._if_of(node) for node in within)
        if len(numbers) != 1 or not numbers <= {"0", "1"} or (within and not restarts):
            return None, False, False
        apart = not self._is_in(self.inner, self.outer)  # in a function that each epoch calls
        of_epoch = [node for node in before if apart or self._is_in(node, self.outer)]
        return int(next(iter(numbers))), bool(of_epoch) and self.outer is not self.inner, restarts

    def _assigned(self, name: str) -> Iterator[cst.Assign | cst.AnnAssign]:
        holder: cst.CSTNode = self.module.tree
        for parent in self.module.ancestors(self.inner):
            if isinstance(parent, cst.FunctionDef):
                holder = parent
                break
        for node in walk(holder):
            targets = (
                [target.target for target in node.targets] if isinstance(node, cst.Assign)
                else [node.target] if isinstance(node, cst.AnnAssign) else []
            )  # fmt: skip
            if any(self.module.code(target) == name for target in targets):
                assert isinstance(node, cst.Assign | cst.AnnAssign)
                yield node

    def _is_in(self, node: cst.CSTNode, holder: cst.CSTNode) -> bool:
        return any(parent is holder for parent in self.module.ancestors(node))

    def _is_conditional(self, node: cst.CSTNode) -> bool:
        for parent in self.module.ancestors(node):
            if isinstance(parent, cst.FunctionDef):
                break
            if isinstance(parent, cst.If):
                return self.module.code(parent.test).replace("'", '"') != '__name__ == "__main__"'
        return False

    def _if_of(self, node: cst.CSTNode) -> bool:
        """Whether it stands in the block of the optimizer's step."""
        return any(isinstance(parent, cst.If) and self._is_at_step(parent) for parent in self.module.ancestors(node))

    def value(self, node: cst.BaseExpression) -> Counter | None:
        """A counter, with what is added to it."""
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract):
            counter, number = self.value(node.left), node.right
            if counter is None or not isinstance(number, cst.Integer):
                return None
            more = int(number.value) if isinstance(node.operator, cst.Add) else -int(number.value)
            return Counter(counter.counts, counter.ahead + more, counter.resets, counter.restarts)
        return self.by_name.get(self.module.code(node)) if isinstance(node, cst.Name | cst.Attribute) else None

    def meant(self, test: cst.BaseExpression) -> cst.BaseExpression:
        """A condition, or the one that a name stands for."""
        return self.flags.get(test.value, test) if isinstance(test, cst.Name) else test

    def every(self, test: cst.BaseExpression) -> cst.BaseExpression | None:
        """The n of `(step + 1) % n == 0`, also with `or` the epoch's last batch; None where a test is no such one.

        NotStandard where it is true at other batches than every n-th.
        """
        test = self.meant(test)
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
            for one, other in ((test.left, test.right), (test.right, test.left)):
                number = self.every(one) if not self._is_last(one) else None
                if number is not None:
                    if not self._is_last(other):
                        raise NotStandard(test, DEPENDS)
                    return number
            return None
        modulo = modulo_of(test)
        if modulo is not None:
            counter = self.value(modulo.left)
            if counter is None or counter.counts != "batches" or counter.restarts:
                raise NotStandard(test, f"what `{self.module.code(modulo.left)}` counts is not known")
            if counter.ahead != 0:
                said = f"the optimizer doesn't step behind every {self.module.code(modulo.right)} batches"
                raise NotStandard(test, said)
            return modulo.right
        part = _compared(test)
        if part is not None and isinstance(part[1], cst.GreaterThanEqual | cst.Equal):
            counter = self.value(part[0])
            if counter is not None and counter.restarts and counter.ahead == 0:
                return part[2]
        return None

    def asks_for_last(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is true at the last batch of an epoch, too: `... or step + 1 == len(loader)`."""
        test = self.meant(test)
        sides = (test.left, test.right) if isinstance(test, cst.BooleanOperation) else (test,)
        return any(self._is_last(side) for side in sides)

    def _is_last(self, test: cst.BaseExpression) -> bool:
        """`step + 1 == len(loader)`: the last batch of an epoch."""
        part = _compared(self.meant(test))
        if part is None or not isinstance(part[1], cst.Equal | cst.GreaterThanEqual):
            return False
        counter, length, less = self.value(part[0]), part[2], 0
        if isinstance(length, cst.BinaryOperation) and isinstance(length.operator, cst.Subtract):
            one = length.right
            if not isinstance(one, cst.Integer):
                return False
            length, less = length.left, int(one.value)
        counted = isinstance(length, cst.Call) and self.module.code(length.func) == "len"
        once = counter is not None and (counter.resets or self.outer is self.inner)
        return counted and once and counter is not None and counter.ahead == -less

    def end(self, test: cst.BaseExpression, *, trained: bool) -> End | None:
        """What `step >= max_steps` ends after; `trained`: the batch at hand is trained when it is asked.

        Also `max_steps > 0 and step >= max_steps`, and other ways to ask whether there is such a number.
        """
        test = self.meant(test)
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            end = self.end(test.right, trained=trained)
            number = self.module.code(end.limit) if end is not None else ""
            guards = (number, f"{number} > 0", f"{number} != -1", f"{number} is not None")
            guard = self.module.code(test.left)
            if end is None or guard not in guards:
                return None
            return End(end.counter, end.limit, end.beyond, end.equal, may_be_none=guard in (guards[0], guards[3]))
        part = _compared(test)
        if part is None or not isinstance(part[1], cst.GreaterThanEqual | cst.Equal | cst.GreaterThan):
            return None
        counter = self.value(part[0])
        if counter is None or counter.restarts:
            return None
        beyond = isinstance(part[1], cst.GreaterThan) - counter.ahead - (not trained)
        return End(counter, part[2], beyond, equal=isinstance(part[1], cst.Equal))


def is_increment(node: cst.CSTNode) -> bool:
    """`step += 1`."""
    return (
        isinstance(node, cst.AugAssign)
        and isinstance(node.operator, cst.AddAssign)
        and isinstance(node.value, cst.Integer)
        and node.value.value == "1"
        and isinstance(node.target, cst.Name | cst.Attribute)
    )


def modulo_of(test: cst.BaseExpression) -> cst.BinaryOperation | None:
    """The `a % n` of `a % n == 0` and of `not a % n`."""
    found: cst.BaseExpression | None = None
    part = _compared(test)
    if part is not None and isinstance(part[1], cst.Equal):
        found = part[0] if isinstance(part[2], cst.Integer) and part[2].value == "0" else None
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        found = test.expression
    return found if isinstance(found, cst.BinaryOperation) and isinstance(found.operator, cst.Modulo) else None


def _compared(test: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseCompOp, cst.BaseExpression] | None:
    """Left side, operator and right side of a comparison of two."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    part = test.comparisons[0]
    return test.left, part.operator, part.comparator
