"""One line of a training step written by hand: the batch, the forward pass and its loss, backward, the steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from ...source.module import Module
from ...source.scopes import walk
from .besides.watching import Watching
from .called_epochs import epoch_called_by
from .statements.advice import APART, DICT, SAME_ROWS
from .statements.batch_parts import UNKNOWN
from .statements.blocks import is_modulo, is_share, is_step, last_name
from .statements.clipping import clipped_to
from .statements.contexts import Contexts
from .statements.counts import Counts, is_increment
from .statements.draws import Draws
from .statements.facts import Left, Loop
from .statements.forward import ForwardPass, ModelCall
from .statements.not_standard import NotStandard


class LineReader:
    """Reads simple statements of a loop over batches; what isn't standard in them goes to the loop's obstacles."""

    def __init__(self, module: Module, loop: Loop, inner: cst.For | cst.While) -> None:
        self.module, self.loop = module, loop
        self.forward = ForwardPass(module)
        self.watching = Watching(module)
        self.contexts = Contexts(module)
        self.made: dict[str, cst.BaseExpression] = {}  # name → what the loop put in it last
        self.trains = set[cst.If]()  # each with an `else`, all of whose ways train
        self.shares: set[str] = set()  # names of losses that are divided
        self.decided: dict[str, cst.BaseExpression] = {}  # name → the condition under which it is made
        self.backward = self.stepped = False
        self.draws: Draws | None = None  # where `next` draws the batches
        self.made_here = False  # batches, of which it is said already
        self.in_step = False  # within the block of the optimizer's step
        self.clips_apart: cst.CSTNode | None = None
        self.zeroes: list[cst.CSTNode] = []
        self.zeroed_early: cst.CSTNode | None = None
        self.zeroes_itself = False  # the gradients, as DeepSpeed's engine does
        self.schedules_apart: cst.CSTNode | None = None
        self.inner = inner
        self.called = epoch_called_by(module, loop.statement)  # for each epoch, where another function trains one
        self.also_trained: set[str] = set()  # names of model, optimizer and schedule where it is called
        self.counts = Counts(module, loop.statement, self.inner)

    def _object(self, node: cst.CSTNode, reason: str, fix: str = "", *, own_loss: bool = False) -> None:
        self.loop.obstacles.append(NotStandard(node, reason, fix, own_loss=own_loss))

    def _guarded(self, read: Callable[..., object], *given: Any) -> None:
        """Reads a statement; what is not standard in it is noted, and those behind it are read all the same."""
        try:
            read(*given)
        except NotStandard as error:
            self.loop.obstacles.append(error)

    def _small(self, line: cst.CSTNode) -> None:
        """One simple statement of the loop over batches."""
        if (is_increment(line) and self.counts.grow(line)) or self.forward.batch.take_out(line):
            return
        node = line
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target, value = node.targets[0].target, node.value
            if self.forward.makes_labels(target, value):
                return
            for name in walk(target):
                if isinstance(name, cst.Name) and not is_share(name.value, value):
                    self.made[name.value] = value
            if isinstance(target, cst.Name):
                if self._assigns(target.value, value):
                    return
            if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
                if self.forward.batch.each_holds(target, value):
                    return
            if isinstance(target, cst.Tuple | cst.List) and self.forward.part(value) == "*":
                if self.forward.batch.take_apart(target):
                    return
                raise NotStandard(node, APART, DICT)
        if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.DivideAssign) and not self.backward:
            if isinstance(node.target, cst.Name) and node.target.value in self.forward.losses:
                self.shares.add(node.target.value)
                self._divided(node, node.value)
                return
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and self._acts(node.value):
            return
        self._watches(node)

    def _divided(self, node: cst.CSTNode, by: cst.BaseExpression) -> None:
        if self.loop.divides is not None and not self.loop.accumulates:
            raise NotStandard(node, "the loss is divided twice", own_loss=True)
        self.loop.divides = by

    def _assigns(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` is a part of the loop; remembers what `name` holds then."""
        try:
            if self.contexts.named(name, value) or self.forward.remember(name, value):
                return True
        except NotStandard:  # said once: what follows from it isn't
            self.forward.unsaid(name)
            raise
        if isinstance(value, cst.Comparison | cst.BooleanOperation):
            if any(is_modulo(node) for node in walk(value)) or self.counts.asks_for_last(value):
                self.counts.flags[name] = value
                return True
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide):
            if not self.backward and self.forward.is_loss(value.left):
                self.forward.remember(name, value.left)
                self.shares.add(name)
                self._divided(value, value.right)
                return True
        if isinstance(value, cst.Call) and last_name(value.func) == "clip_grad_norm_":
            return self._acts(value)
        if self.made_here and not self.backward and isinstance(value, cst.Call | cst.Subscript):
            self.forward.batch.by_name[name] = UNKNOWN
        return False

    def _acts(self, call: cst.Call) -> bool:
        """Backward, clipping, the steps; False for any other call."""
        last, code = last_name(call.func), self.module.code
        owner = code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        if last == "backward":
            self._backward(call, call.args[0].value if call.args else getattr(call.func, "value", None))
            return True
        if last == "clip_grad_norm_":
            if not self.backward or self.stepped:
                raise NotStandard(call, "gradients are clipped where it changes no step: not between backward and it")
            self.loop.clip = clipped_to(self.module, call, self.forward.model)
            if not self.in_step:
                self.clips_apart = call
            return True
        if last == "step":
            return self._steps(call, owner)
        if last == "zero_grad":
            if self.backward and not self.stepped:
                self.zeroed_early = call
            if self._is_beside(call):
                self.loop.drops_rest = True
            elif not self.in_step:
                self.zeroes.append(call)
            return True
        if (last in ("unscale_", "update") and "scaler" in owner.lower()) or self.forward.fills_labels(call):
            return True
        return last == "train" and owner in (self.forward.model, "model") and not call.args

    def _steps(self, call: cst.Call, owner: str) -> bool:
        """`optimizer.step()`, `scaler.step(optimizer)`, `scheduler.step()`."""
        code, loop = self.module.code, self.loop
        if not is_step(call):
            return False
        if self.stepped and loop.optimizer in (owner, *(code(argument.value) for argument in call.args)):
            raise NotStandard(call, "the optimizer steps twice for a batch")
        if not self.backward:
            return False
        if not self.stepped:
            self.stepped, given = True, call.args[0].value if call.args else None
            if given is not None and self._is_closure(given):
                raise NotStandard(call, f"the optimizer steps by a function of its own, `{code(given)}`")
            loop.optimizer = code(given) if given is not None else owner
        elif owner != loop.optimizer and not call.args:
            if loop.scheduler == owner:
                raise NotStandard(call, "the schedule steps twice for a batch")
            if loop.scheduler:
                raise NotStandard(call, "two schedules set the learning rate")
            loop.scheduler = owner
            if not self.in_step:
                self.schedules_apart = call
        elif call.args:
            raise NotStandard(call, f"`{code(call)}` steps by what it is given")
        return True

    def _is_closure(self, node: cst.BaseExpression) -> bool:
        """Whether `optimizer.step(...)` is given a function, and not a scaler an optimizer."""
        found = self.module.meaning(node) if isinstance(node, cst.Name) else None
        defined = found is not None and any(binding.kind == "definition" for binding in found[1])
        return defined or isinstance(node, cst.Lambda)

    def _backward(self, call: cst.Call, loss: cst.BaseExpression | None) -> None:
        known = self.backward
        self.backward = True
        owner = self.module.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        self.zeroes_itself = self.zeroes_itself or owner == self.forward.model
        if known:
            raise NotStandard(call, "a batch has more than one backward pass")
        if isinstance(loss, cst.Call) and last_name(loss.func) == "scale" and loss.args:  # scaler.scale(loss)
            loss = loss.args[0].value
        if isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, cst.Divide):
            self._divided(call, loss.right)
            loss = loss.left
        if self.shares and not (isinstance(loss, cst.Name) and loss.value in self.shares):
            raise NotStandard(call, "backward is called of another loss than the one that is divided", own_loss=True)
        called = self.forward.loss_of(loss) if loss is not None else None
        if called is not None:
            self.forward.trains(called)
        elif (given := self._computed(loss)) is not None:
            self.forward.trains(given)
            self._given_else(call, given)
        else:
            reason = "this loss is not the one that the model computes from its labels"
            name = loss.value if isinstance(loss, cst.Name) else ""
            made = self.made.get(name)
            while isinstance(made, cst.BinaryOperation) and isinstance(made.operator, cst.Divide):
                made = made.left
            if name in self.decided and made is None:
                reason += f": `{self.module.code(self.decided[name])}` decides what it is"
            elif isinstance(made, cst.Call):
                reason += f": `{self.module.code(made.func)}(...)` makes it"
            elif made is not None:
                said = " ".join(self.module.code(made).split())
                reason += f": it is `{said if len(said) <= 60 else said[:57] + '...'}`"
            raise NotStandard(call, reason, own_loss=True)

    def _computed(self, loss: cst.BaseExpression | None) -> ModelCall | None:
        """The call of a model that computes this loss from labels, of whatever rows: `outputs.loss`."""
        if not isinstance(loss, cst.Attribute) or loss.attr.value != "loss":
            return None
        made = self.made.get(loss.value.value) if isinstance(loss.value, cst.Name) else loss.value
        if not isinstance(made, cst.Call) or not self.forward.is_model(made):
            return None
        labelled = any(each.star == "**" or (each.keyword and each.keyword.value == "labels") for each in made.args)
        return ModelCall(made, self.module.code(made.func)) if labelled else None

    def _given_else(self, call: cst.Call, given: ModelCall) -> None:
        """The model computes the loss, but not of a batch of the loop: of one that stands in front of it, perhaps."""
        if not self.made_here:
            raise NotStandard(call, "the model is given other rows than the batch", SAME_ROWS)
        assert given.call is not None
        held = [argument.value for argument in given.call.args]
        if not all(isinstance(each, cst.Name) and each.value not in self.made for each in held):
            return  # it is said that batches are made in the loop
        for place, obstacle in enumerate(self.loop.obstacles):
            if obstacle.node is self.inner:
                reason = "every step trains the same rows, which stand in front of it"
                self.loop.obstacles[place] = NotStandard(obstacle.node, reason, SAME_ROWS)

    def _is_beside(self, node: cst.CSTNode) -> bool:
        """Whether it stands beside the loop over batches, not in it."""
        return not any(parent is self.inner for parent in self.module.ancestors(node))

    def _watches(self, line: cst.CSTNode) -> None:
        """Accepts what only looks on, and keeps in `left` what it did; what takes part is an obstacle."""
        named = {self.forward.model, self.loop.optimizer, self.loop.scheduler, *self.also_trained} - {""}
        held = set() if self.backward else self.forward.held()
        if isinstance(line, cst.If) and not self.backward:
            assigned = [node for node in walk(line) if isinstance(node, cst.Assign)]
            names = [name.value for node in assigned for name in walk(node.targets[0]) if isinstance(name, cst.Name)]
            self.decided |= dict.fromkeys(names, line.test)
        found = list(self.watching.obstacles(line, named | {"model", "optimizer", "scheduler"}, held))
        if found:
            self.loop.obstacles.extend(found)
            return
        self.loop.left += [Left(node, what) for node, what in self.watching.kinds(line, self.forward.model)]

    def _name(self, node: cst.BaseExpression) -> str:
        return self.module.qualified(node) or self.module.code(node)
