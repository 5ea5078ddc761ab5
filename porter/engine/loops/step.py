"""A training step written by hand, statement by statement: the batch, the forward pass, backward, the steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from ...source.module import Module
from ...source.scopes import walk
from .besides.watching import Watching
from .called_epochs import epoch_called_by
from .statements.advice import APART, DICT, FILTER, ONE_WAY
from .statements.batch_parts import UNKNOWN
from .statements.blocks import is_backward, is_modulo, is_of_scaler, is_share, is_step, is_there, last_name, lines_of
from .statements.clipping import clipped_to
from .statements.contexts import Contexts
from .statements.counts import DEPENDS, Counts, is_increment
from .statements.draws import Draws
from .statements.facts import Left, Loop
from .statements.forward import ForwardPass
from .statements.not_standard import NotStandard

State = tuple[Loop, ForwardPass, tuple[bool, bool], dict[str, cst.BaseExpression]]


class StepReader:
    """Reads the statements of a loop over batches; what isn't standard in them goes to the loop's obstacles."""

    def __init__(self, module: Module, loop: Loop, inner: cst.For | cst.While) -> None:
        self.module, self.loop = module, loop
        self.forward = ForwardPass(module)
        self.watching = Watching(module)
        self.contexts = Contexts(module)
        self.made: dict[str, cst.BaseExpression] = {}  # name → what the loop put in it last
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

    def _body(self, lines: Sequence[cst.CSTNode]) -> None:
        for line in lines:
            self._guarded(self._statement, line)

    def _statement(self, line: cst.CSTNode) -> None:
        if self.draws is not None and self.draws.is_part(self.module, line, self.counts):
            return
        if isinstance(line, cst.With):
            if not self._takes_part(line):
                self._watches(line)
                return
            for item in line.items:
                self._guarded(self._context, item.item)
            self._body(lines_of(line.body))
        elif isinstance(line, cst.If):
            self._condition(line)
        elif isinstance(line, cst.For | cst.While | cst.Try | cst.FunctionDef | cst.ClassDef | cst.Match):
            if isinstance(line, cst.Try) and self._takes_part(line):
                if self.watching.catches_memory(line):
                    self.loop.left.append(Left(line, "memory"))
                else:
                    self._object(line, "a step that fails is caught, and the loop goes on without it", FILTER)
                self._body(lines_of(line.body))
                return
            if isinstance(line, cst.For | cst.While) and any(is_backward(node) for node in walk(line)):
                self.backward = True
                self.stepped = self.stepped or any(is_step(node) for node in walk(line))
                raise NotStandard(line, "an inner loop trains several times on what is drawn")
            self._watches(line)
        else:
            self._small(line)

    def _takes_part(self, line: cst.CSTNode) -> bool:
        """Whether a compound statement holds backward, a step, or a forward pass whose loss is trained."""
        if any(is_backward(node) or is_step(node) for node in walk(line)):
            return True
        frozen = isinstance(line, cst.With) and any(
            last_name(item.item.func) in ("no_grad", "inference_mode")
            for item in line.items
            if isinstance(item.item, cst.Call)
        )
        if self.backward or frozen:
            return False
        return any(isinstance(node, cst.Assign | cst.AugAssign) for node in walk(line))

    def _context(self, node: cst.BaseExpression) -> None:
        found = self.contexts.meaning(node)
        if found is None:
            raise NotStandard(node, "what this context does to the step is not known")
        if found.accumulates:
            self.loop.accumulates = True
        if found.autocast is not None:
            self.loop.autocast, self.loop.autocast_if, self.loop.autocast_flag = True, found.autocast, found.flag
            self.loop.autocast_at = node

    def _condition(self, node: cst.If) -> None:
        """`if (step + 1) % n == 0:` around the steps, `if step >= n: break`, and what only watches."""
        lines = lines_of(node.body)
        if self.contexts.chosen(node) or (node.orelse is None and all(map(self.forward.means, lines))):
            return
        synced = self.module.code(node.test).endswith("sync_gradients")
        inside = [inner for line in lines for inner in walk(line)]
        if isinstance(node.orelse, cst.Else) and self._both(node, node.orelse):
            return
        if any(is_step(inner) for inner in inside):
            if is_there(self.module, node):
                self._body(lines)
                return
            if not synced:
                self._guarded(self._every, node)
            self._in_step(lines)
            if node.orelse is not None:
                self._watches(node.orelse)
            return
        if synced:
            self._in_step(lines)
            return
        if any(isinstance(inner, cst.Break | cst.Return) for inner in inside) and self._end(node):
            return
        if any(is_backward(inner) for inner in inside):
            self._object(node, "only some batches train")
            self._body(lines)
            if isinstance(node.orelse, cst.Else):
                self._body(lines_of(node.orelse.body))
            return
        if self._clips(node, lines) or (lines and all(is_of_scaler(self.module, line) for line in lines)):
            return
        self._watches(node)

    def _every(self, node: cst.If) -> None:
        number = self.counts.every(node.test)
        known = self.loop.accumulation
        if number is None or (known is not None and self.module.code(number) != self.module.code(known)):
            raise NotStandard(node, DEPENDS)
        self.loop.accumulation = number
        self.loop.steps_at_last = self.counts.asks_for_last(node.test)

    def _in_step(self, lines: Sequence[cst.CSTNode]) -> None:
        before, self.in_step = self.in_step, True
        self._body(lines)
        self.in_step = before

    def _clips(self, node: cst.If, lines: Sequence[cst.CSTNode]) -> bool:
        """`if max_norm > 0: clip_grad_norm_(parameters, max_norm)`, and under any other flag."""
        calls = [inner for line in lines for inner in walk(line) if isinstance(inner, cst.Call)]
        clips = [call for call in calls if last_name(call.func) == "clip_grad_norm_"]
        rest = [
            line
            for line in lines
            if not any(inner in clips for inner in walk(line)) and not is_of_scaler(self.module, line)
        ]
        if len(clips) != 1 or rest or node.orelse is not None:
            return False
        names = {inner.value for inner in walk(node.test) if isinstance(inner, cst.Name)}
        if names & {*self.made, *self.forward.losses, *self.counts.by_name}:
            raise NotStandard(node, "only some steps clip their gradients")
        self._acts(clips[0])
        self.loop.clip_if = node.test
        return True

    def _both(self, node: cst.If, other: cst.Else) -> bool:
        """Whether both ways of an `if` train, and alike but for the number of bits: what is read of one is kept."""
        trains = [any(is_backward(inner) or is_step(inner) for inner in walk(body)) for body in (node.body, other.body)]
        if not all(trains):
            return False
        start, (first, then) = self._state(), (node.body, other.body)
        found = []
        for body in (first, then):
            self._set(start)
            start = copy.copy(start)
            self._body(lines_of(body))
            found.append((self._said(), self.loop.autocast, self._state()))
        (said, cast, state), (said_else, cast_else, state_else) = found
        self._set(state)
        if said != said_else:
            obstacles = {(id(each.node)): each for each in (*self.loop.obstacles, *state_else[0].obstacles)}
            self.loop.obstacles = list(obstacles.values())
            self._object(node, "the two ways to train do not mean the same", ONE_WAY)
        elif cast != cast_else and not start[0].autocast:
            test = self.module.code(node.test)
            self.loop.autocast, self.loop.autocast_if = True, test if cast else f"not ({test})"
            self.loop.autocast_flag, self.loop.autocast_at = node.test if cast else None, node.test
        return True

    def _state(self) -> State:
        loop = replace(self.loop, left=list(self.loop.left), obstacles=list(self.loop.obstacles))
        return loop, self.forward.copy(), (self.backward, self.stepped), dict(self.made)

    def _set(self, state: State) -> None:
        loop, forward, (self.backward, self.stepped), made = state
        self.loop = replace(loop, left=list(loop.left), obstacles=list(loop.obstacles))
        self.forward, self.made = forward.copy(), dict(made)

    def _said(self) -> tuple[object, ...]:
        """What is read so far, comparable."""
        loop, code = self.loop, self.module.code
        nodes = (loop.accumulation, loop.divides, loop.clip, loop.clip_if)
        texts = tuple(code(node) if node is not None else "" for node in nodes)
        return (*texts, loop.optimizer, loop.scheduler, loop.accumulates, self.backward, self.stepped,
                self.forward.model, tuple(sorted(self.forward.trained.inputs.items())))  # fmt: skip

    def _end(self, node: cst.If) -> bool:
        """`if completed_steps >= max_steps: break`; False where the test is of something else."""
        end = self.counts.end(node.test, trained=self.backward)
        lines = lines_of(node.body)
        leaves = lines[-1] if lines else None
        if end is None:
            return False
        if not isinstance(leaves, cst.Break | cst.Return) or node.orelse is not None:
            raise NotStandard(node, "why it ends before the last batch is not known")
        if end.counter.resets:
            raise NotStandard(node, "it ends each epoch after a number of batches, not the training")
        of_epoch = isinstance(leaves, cst.Break) or self.called is not None
        if end.equal and self.inner is not self.loop.statement and of_epoch:
            raise NotStandard(node, "it ends one epoch, and the next ones train on")
        code, known = self.module.code, self.loop.max_steps
        if known is not None and code(known) != code(end.limit):
            raise NotStandard(node, f"it ends by `{code(known)}` and by `{code(end.limit)}`")
        returns = isinstance(leaves, cst.Return) and self.called is None
        if not self.backward or returns or self.inner is self.loop.statement:
            self.loop.ends_all = True
        if self.loop.end is None or end.beyond < self.loop.end.beyond:
            self.loop.max_steps, self.loop.end = end.limit, replace(end, counter=end.counter.now())
        return True

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
        called = self.forward.loss_of(loss) if loss is not None else None
        if called is not None:
            self.forward.trains(called)
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
        self.loop.left += [Left(node, what) for node, what in self.watching.kinds(line)]

    def _name(self, node: cst.BaseExpression) -> str:
        return self.module.qualified(node) or self.module.code(node)
