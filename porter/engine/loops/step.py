"""A training step written by hand, block by block: which branches, contexts and inner loops are parts of the standard
one; `step_lines.py` reads their lines."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from ...source.scopes import walk
from .statements.advice import FILTER, ONE_WAY
from .statements.blocks import is_backward, is_of_scaler, is_step, is_there, last_name, lines_of
from .statements.counts import DEPENDS
from .statements.facts import Left, Loop
from .statements.forward import ForwardPass
from .statements.not_standard import NotStandard
from .step_lines import LineReader

State = tuple[Loop, ForwardPass, tuple[bool, bool], dict[str, cst.BaseExpression]]


class StepReader(LineReader):
    """Reads the statements of a loop over batches, those in blocks among them."""

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
        if node.orelse is not None and self._both(node, node.orelse):
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

    def _both(self, node: cst.If, other: cst.Else | cst.If) -> bool:
        """Whether all ways of an `if` train, and alike but for the number of bits: what is read of one is kept."""
        if node not in self.trains:  # nor is it a way of one that is looked at
            ways = _ways(node)
            if not ways or not all(any(is_backward(each) or is_step(each) for each in walk(way.body)) for way in ways):
                return False
            self.trains.update(way for way in ways if isinstance(way, cst.If))
        start, casting, found = self._state(), self.loop.autocast, []
        for way in (node.body, other):
            self._set(start)
            start = copy.copy(start)
            if isinstance(way, cst.If):
                self._condition(way)
            else:
                self._body(lines_of(way.body if isinstance(way, cst.Else) else way))
            found.append((self._said(), self._cast(), self._state()))
        (said, cast, state), (said_else, cast_else, state_else) = found
        self._set(state)
        if said != said_else:
            obstacles = {(id(each.node)): each for each in (*self.loop.obstacles, *state_else[0].obstacles)}
            self.loop.obstacles = list(obstacles.values())
            self._object(node, "the two ways to train do not mean the same", ONE_WAY)
        elif cast != cast_else and not casting:
            test = self.module.code(node.test)
            self.loop.autocast, self.loop.autocast_if = True, either(test, cast, cast_else)
            self.loop.autocast_flag = node.test if (cast, cast_else) == (True, False) else None
            self.loop.autocast_at = node.test
        return True

    def _cast(self) -> bool | str:
        """Whether products are of 16 bits by what is read so far, or under which condition."""
        return (self.loop.autocast_if or True) if self.loop.autocast else False

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


def _ways(node: cst.If) -> list[cst.If | cst.Else]:
    """An `if`, its `elif`s and its `else`; nothing without an `else`."""
    found: list[cst.If | cst.Else] = [node]
    while isinstance(last := found[-1], cst.If):
        if last.orelse is None:
            return []
        found.append(last.orelse)
    return found


def either(test: str, first: bool | str, second: bool | str) -> str:
    """The condition that is `first` where `test` holds and `second` where it doesn't, each a condition of its own."""
    if first is False and second is True:
        return f"not ({test})"
    if first is True:
        return test if second is False else f"{test} or {second}"
    whether = f"({first}) and ({test})" if first else ""
    rest = "" if second is False else f"not ({test})" + ("" if second is True else f" and ({second})")
    return " or ".join(each for each in (whether, rest) if each)
