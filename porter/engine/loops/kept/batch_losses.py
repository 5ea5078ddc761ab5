"""What a loop over batches computes: which of its lines only lead to the loss, and where that is a number.

for batch in val_loader:
    batch = {k: v.to(device) for k, v in batch.items()}    leads to it
    outputs = model(**batch)                               leads to it
    total += outputs.loss.item()                           the number is outputs.loss.item()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from ....source.module import Module
from ....source.scopes import children, inside, walk
from ..besides.altered import changed_by
from ..besides.filled_names import filled
from ..statements.blocks import last_name, lines_of
from ..statements.forward import ForwardPass, ModelCall
from ..statements.not_standard import NotStandard

SAME = ("detach", "cpu", "float", "clone", "numpy", "double", "mean")  # methods behind which a loss is the same
NUMBERS = ("item", "tolist")


@dataclass(frozen=True)
class LossNumber:
    """A loss that `called` computes: the `whole` of a batch, or its `share` of an accumulated step; `plain`: a Python
    number, no tensor."""

    called: ModelCall
    kind: Literal["whole", "share"]
    plain: bool


class BatchLosses:
    """Reads the body of a loop; `understood` is False where what a line does to the batch isn't known.

    `divisor`: the code of what a loss may be divided by.
    """

    def __init__(self, module: Module, target: cst.BaseExpression, divisor: str = "") -> None:
        self.module, self.divisor = module, divisor
        self.forward = ForwardPass(module)
        self.numbers: dict[str, LossNumber] = {}
        self.parts: list[cst.CSTNode] = []
        self.others: list[cst.CSTNode] = []
        self.understood = True
        if isinstance(target, cst.Tuple | cst.List):
            self.understood = self.forward.batch.take_apart(target)
        elif isinstance(target, cst.Name):
            self.forward.batch.by_name[target.value] = "*"

    def read(self, lines: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The lines that do more than lead to the loss, each when those above it are read; contexts are looked into."""
        for line in lines:
            if isinstance(line, cst.With):
                yield from self.read(lines_of(line.body))
                continue
            try:
                leads = self._leads(line)
            except NotStandard:
                self.understood, leads = False, False
            (self.parts if leads else self.others).append(line)
            if not leads:
                self._forget(line)
                yield line

    def _forget(self, line: cst.CSTNode) -> None:
        """What a line changes that held a loss holds it no more: `loss *= 8`, `if ...: loss = loss.exp()`."""
        for node in inside(line):
            name = changed_by(self.module, node) if isinstance(node, cst.Call) else ""
            for changed in [name] if name else [each.value for each in filled(node) if isinstance(each, cst.Name)]:
                held, new = self._held_by(changed), self._set_by(node)
                if held is None and changed not in self.forward.outputs:
                    continue
                if held is not None and new is not None and (new.called, new.kind) == (held.called, held.kind):
                    continue  # `if gpus > 1: loss = loss.mean()`
                for names in (self.numbers, self.forward.losses, self.forward.outputs):
                    names.pop(changed, None)

    def _held_by(self, name: str) -> LossNumber | None:
        found = self.forward.losses.get(name)
        return self.numbers.get(name) or (LossNumber(found, "whole", plain=False) if found is not None else None)

    def _set_by(self, node: cst.CSTNode) -> LossNumber | None:
        """The loss that an assignment gives its one name."""
        alone = isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name)
        return self.number(node.value) if alone and isinstance(node, cst.Assign) else None

    def _leads(self, line: cst.CSTNode) -> bool:
        if isinstance(line, cst.AugAssign):
            name = line.target.value if isinstance(line.target, cst.Name) else ""
            by = self.module.code(line.value) == self.divisor
            divides, multiplies = (isinstance(line.operator, how) for how in (cst.DivideAssign, cst.MultiplyAssign))
            if by and divides and name in self.forward.losses and name not in self.numbers:
                self.numbers[name] = LossNumber(self.forward.losses[name], "share", plain=False)
                return True
            share = self.numbers.get(name)
            if by and multiplies and share is not None and share.kind == "share":
                self.numbers[name] = LossNumber(share.called, "whole", share.plain)
                return True
            return False
        if self.forward.batch.take_out(line):
            return True
        if isinstance(line, cst.Expr) and isinstance(line.value, cst.Call):
            return self.forward.fills_labels(line.value)
        if not isinstance(line, cst.Assign) or len(line.targets) != 1:
            return False
        target, value = line.targets[0].target, line.value
        if self.forward.makes_labels(target, value):
            return True
        if isinstance(target, cst.Tuple | cst.List):
            return self._takes_apart(target, value)
        if not isinstance(target, cst.Name):
            return False
        found = self.number(value)
        if found is None or not (found.plain or found.kind == "share"):
            if self.forward.remember(target.value, value):
                self.numbers.pop(target.value, None)
                return True
        if found is not None:
            self.numbers[target.value] = found
        return found is not None

    def _takes_apart(self, target: cst.Tuple | cst.List, value: cst.BaseExpression) -> bool:
        if self.forward.part(value) == "*":
            return self.forward.batch.take_apart(target)
        if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            return False
        return self.forward.batch.each_holds(target, value)

    def number(self, node: cst.BaseExpression) -> LossNumber | None:
        """The loss that an expression is, moved or not; None for any other."""
        plain = False
        while isinstance(node, cst.Call):
            last = last_name(node.func)
            if isinstance(node.func, cst.Attribute) and last in (*SAME, *NUMBERS) and not node.args:
                plain, node = plain or last in NUMBERS, node.func.value
            elif isinstance(node.func, cst.Name) and last == "float" and len(node.args) == 1:
                plain, node = True, node.args[0].value
            else:
                break
        if isinstance(node, cst.Name) and node.value in self.numbers:
            held = self.numbers[node.value]
            return LossNumber(held.called, held.kind, plain or held.plain)
        if isinstance(node, cst.BinaryOperation):
            return self._calculated(node, plain)
        try:
            called = self.forward.loss_of(node)
        except NotStandard:  # a call that might be a model's
            return None
        return LossNumber(called, "whole", plain) if called is not None else None

    def _calculated(self, node: cst.BinaryOperation, plain: bool) -> LossNumber | None:
        """`loss / n`, and `loss.item() * n` of a share."""
        by = self.module.code(node.right)
        found = self.number(node.left) if self.divisor and by == self.divisor else None
        if found is not None and isinstance(node.operator, cst.Divide) and found.kind == "whole":
            return LossNumber(found.called, "share", plain or found.plain)
        if found is not None and isinstance(node.operator, cst.Multiply) and found.kind == "share":
            return LossNumber(found.called, "whole", plain or found.plain)
        return None

    def numbers_in(self, line: cst.CSTNode) -> list[cst.BaseExpression]:
        """The losses in a line, each as large as it is."""
        if isinstance(line, cst.BaseExpression) and self.number(line) is not None:
            return [line]
        return [found for child in children(line) for found in self.numbers_in(child)]

    def is_free_of_batches(self, line: cst.CSTNode, but: Sequence[cst.BaseExpression]) -> bool:
        """Whether a line, but for the losses in it, reads nothing of the batch or of what the model makes of it."""
        inner = {id(node) for each in but for node in walk(each)}
        held = self.held() | {self.forward.model}
        names = [node for node in walk(line) if isinstance(node, cst.Name) and id(node) not in inner]
        return not any(name.value in held and not self.module.is_member(name) for name in names)

    def held(self) -> set[str]:
        """The names of the batch, and of what the model makes of it."""
        forward, batch = self.forward, self.forward.batch
        made = {*forward.outputs, *forward.losses, *forward.own_loss.logits, *forward.own_loss.labels}
        return {*batch.by_name, *batch.dicts, *made, *self.numbers}
