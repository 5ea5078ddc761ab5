"""Training loops written by hand: forward, backward, optimizer step. Which are standard, and which lines aren't.

A loop is read statement by statement. Each must be a part of the standard loop (the batch to the device, the forward
pass and its loss, backward, clipping, the steps, accumulation, an end after so many steps) or only watch it (progress
bars, prints, logging). Every one that is neither makes the loop the user's own, and is named.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import libcst as cst

from ...source.module import Module
from ...source.scopes import walk
from .called_epochs import CalledEpoch, called_epoch, epoch_called_by, mean_outside
from .statements.advice import APART, CLIP_AT_STEP, DICT, LOADER, ONE_SCHEDULE, STEP_SCHEDULE, ZERO_BEHIND
from .statements.blocks import is_backward, is_step, is_zeroing, last_name, lines_of
from .statements.counts import End
from .statements.draws import drawn_by_next
from .statements.facts import Left, Loop
from .statements.made_labels import Unlabelled
from .statements.not_standard import NotStandard
from .step import StepReader

PROGRESS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.trange", "tqdm.auto.trange")
WHOLE_LOADERS = ("iter", "list", "tuple", "prepare")
GIVES_ALL = re.compile(r"loader|tqdm|progress|track|bar$", re.IGNORECASE)  # in the name of a function
MAYBE = (cst.IfExp, cst.BooleanOperation, cst.CompFor, cst.GeneratorExp, cst.ListComp, cst.Lambda)
RANGES = ("range", "tqdm.trange", "tqdm.auto.trange")


def training_loops(module: Module) -> list[cst.For | cst.While]:
    """The outermost loops that call `backward`, in source order; also by a function for each epoch."""
    found: list[cst.For | cst.While] = []
    for call in module.calls_that(is_backward):
        around = []
        for node in module.ancestors(call):
            if isinstance(node, cst.FunctionDef | cst.ClassDef):
                break
            if isinstance(node, cst.For | cst.While):
                around.append(node)
        called = called_epoch(module, around[0]) if len(around) == 1 else None
        outermost = called[1] if called is not None else around[-1] if around else None
        if outermost is not None and outermost not in found:
            found.append(outermost)
    return found


def read_loop(module: Module, statement: cst.For | cst.While) -> Loop:
    """What a training loop says; its `obstacles` are the lines that aren't part of a standard one."""
    return _Reader(module, Loop(statement), _over_batches_in(module, statement)).read()


def _over_batches_in(module: Module, statement: cst.For | cst.While) -> cst.For | cst.While:
    """The loop over batches: the one in `statement` that holds backward itself, or in what it calls."""
    for line in lines_of(statement.body):
        if isinstance(line, cst.For | cst.While) and any(is_backward(node) for node in walk(line)):
            return line
    called = epoch_called_by(module, statement)
    return called.batches if called is not None else statement


class _Reader(StepReader):
    """Reads the loops around the step: over epochs and batches."""

    def read(self) -> Loop:
        statement = self.loop.statement
        if self.inner is statement:
            self._alone(statement)
        else:
            self._outer(statement)
            for line in lines_of(statement.body):
                if line is self.inner:
                    self._try_batches()
                elif self.called is not None and any(node is self.called.call for node in walk(line)):
                    self._guarded(self._called, line, self.called)
                else:
                    self._guarded(self._beside, line)
            if isinstance(statement, cst.While) and self.loop.max_steps is not None and self.loop.end is None:
                self._object(statement, "the `while` is asked between passes over the data only")
        for behind in (statement.orelse, self.inner.orelse):
            if behind is not None:
                self._object(behind, "what an `else` behind the batches does belongs to no step")
        loop = self.loop
        trained = self.forward.trained
        loop.model, loop.inputs, loop.call = trained.model, dict(trained.inputs), trained.call
        loop.unlabelled = self._told_outside(trained.unlabelled)
        if self.called is not None:
            loop.function = self.called.function
            mean_outside(self.module, loop, self.called)
            loop.loader = self._without_progress(loop.loader) if loop.loader is not None else None
        held = [*walk(statement), *(walk(self.called.function) if self.called is not None else ())]
        if not self.backward or not self.stepped:
            apart = next((node for node in held if is_step(node)), None)
            if apart is None:
                self._object(statement, "it has no `loss.backward()` with an `optimizer.step()` behind it")
            else:
                called = self.module.code(apart.func) if isinstance(apart, cst.Call) else ""
                self._object(apart, f"`{called}` doesn't stand behind the backward pass of a batch")
        elif not self.zeroes_itself and not any(map(is_zeroing, held)):
            self._object(statement, "gradients are never set to zero, so that each step adds to those before")
        elif not self.zeroes_itself and not any(map(is_zeroing, walk(self.inner))):
            beside = next(node for node in held if is_zeroing(node))
            self._object(beside, "gradients are set to zero once an epoch, and each step adds to those before")
        elif self.zeroed_early is not None:
            reason = "gradients are set to zero between the backward pass and the optimizer's step"
            self._object(self.zeroed_early, reason)
        self._agree()
        loop.obstacles = _in_order(self.module, loop.obstacles)
        return loop

    def _told_outside(self, masked: Unlabelled | None) -> Unlabelled | None:
        """Where labels are -100: an obstacle where only the loop knows the value."""
        if masked is not None and masked.value is not None:
            names = {node.value for node in walk(masked.value) if isinstance(node, cst.Name)}
            if names & {*self.made, *self.forward.batch.by_name}:
                value = self.module.code(masked.value)
                self._object(
                    masked.value, f"where labels are -100 is known to the loop alone: `{value}`", own_loss=True
                )
        return masked

    def _called(self, line: cst.CSTNode, called: CalledEpoch) -> None:
        """A line of the loop over epochs that calls the function with the one over batches."""
        lines = lines_of(called.function.body)
        for each in lines:
            if each is self.inner:
                self._try_batches()
            elif not (isinstance(each, cst.Return) and each is lines[-1]):
                self._guarded(self._beside, each)
        loop = self.loop
        names = (self.forward.model, loop.optimizer, loop.scheduler)
        self.also_trained |= {called.named_outside(self.module, name) for name in names} - {""}
        loop.left.append(Left(line, "logging"))
        between = itertools.takewhile(lambda node: node is not line, self.module.ancestors(called.call))
        if isinstance(line, cst.BaseCompoundStatement) or any(isinstance(node, MAYBE) for node in between):
            name = called.function.name.value
            raise NotStandard(line, f"`{name}` isn't called by every epoch, or in a way of its own")

    def _outer(self, statement: cst.For | cst.While) -> None:
        """The loop over epochs, or `while step < max_steps` over passes."""
        if isinstance(statement, cst.For):
            self._guarded(self._epochs, statement)
            return
        test = statement.test
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            part = test.comparisons[0]
            counter = self.counts.value(test.left)
            if isinstance(part.operator, cst.LessThan) and counter is not None and not counter.resets:
                self.loop.max_steps, self.loop.ends_all = part.comparator, True
                return
        self._object(statement, "a `while` loop decides by itself when it ends")

    def _alone(self, statement: cst.For | cst.While) -> None:
        """One loop: over a DataLoader, or over the numbers of batches that `next` draws."""
        drawn = drawn_by_next(self.module, statement)
        if drawn is None and isinstance(statement, cst.For):
            self._over_batches(statement)
            return
        if drawn is not None:
            self.draws, self.loop.loader = drawn, drawn.loader
            self.forward.batch.by_name[drawn.batch] = "*"
        if isinstance(statement, cst.For):
            self._guarded(self._numbered, statement)
        else:
            self._outer(statement)
            if self.loop.max_steps is not None and isinstance(statement.test, cst.Comparison):
                counter = self.counts.value(statement.test.left)
                assert counter is not None
                limit = self.loop.max_steps
                self.loop.end, self.loop.ends_all = End(counter.now(), limit, -counter.ahead - 1), True
        self._body(lines_of(statement.body))

    def _numbered(self, statement: cst.For) -> None:
        """`for step in range(n)`, where `next` draws the batch."""
        source = self._without_progress(statement.iter)
        values = source.args if isinstance(source, cst.Call) and self._name(source.func) in RANGES else ()
        if len([each for each in values if each.keyword is None]) != 1 or not isinstance(statement.target, cst.Name):
            raise NotStandard(statement, "batches are not counted with `range(steps)`")
        self.counts.ranged(statement.target.value, 0)
        counter = self.counts.by_name[statement.target.value]
        self.loop.max_steps, self.loop.ends_all = values[0].value, True
        self.loop.end = End(counter.now(), values[0].value, 0)

    def _epochs(self, statement: cst.For) -> None:
        """The epochs of `for epoch in range(E)`, also inside tqdm, and of `range(first, E)`."""
        source, loop = self._without_progress(statement.iter), self.loop
        if isinstance(source, cst.Call) and self._name(source.func) in RANGES:
            values = [argument.value for argument in source.args if argument.keyword is None]
            if len(values) == 1:
                loop.epochs = values[0]
                return
            if len(values) == 2:
                first, end = values
                if isinstance(first, cst.Integer):
                    loop.epochs, loop.first_epoch = end, int(first.value)
                    plus = isinstance(end, cst.BinaryOperation) and isinstance(end.operator, cst.Add)
                    if plus and isinstance(end, cst.BinaryOperation):
                        if self.module.code(end.right) == self.module.code(first):  # range(1, epochs + 1)
                            loop.epochs, loop.first_epoch = end.left, 0
                    return
                if isinstance(first, cst.Name | cst.Attribute):  # range(starting_epoch, epochs)
                    loop.left.append(Left(first, "resuming"))
                    loop.epochs = end
                    return
        raise NotStandard(statement.iter, "epochs are not counted with `range(epochs)`")

    def _try_batches(self) -> None:
        if isinstance(self.inner, cst.While):
            self._object(self.inner, "a `while` loop decides by itself when it ends")
            self._body(lines_of(self.inner.body))
        else:
            self._over_batches(self.inner)

    def _over_batches(self, statement: cst.For) -> None:
        try:
            self._drawn(statement)
        except NotStandard as error:
            self.loop.obstacles.append(error)
            self.forward.batch.unknown(statement.target)
        self._body(lines_of(statement.body))

    def _drawn(self, statement: cst.For) -> None:
        """`for step, batch in enumerate(loader)`: the loader, and the names of the number and the batch."""
        source = self._without_progress(statement.iter)
        target: cst.BaseExpression = statement.target
        if isinstance(source, cst.Call) and self._name(source.func) == "enumerate":
            names = target.elements if isinstance(target, cst.Tuple) else ()
            if len(names) != 2 or not isinstance(names[0].value, cst.Name) or not source.args:
                raise NotStandard(statement, "`enumerate` gives a number and a batch")
            start = source.args[1].value if len(source.args) > 1 else None
            if start is None or isinstance(start, cst.Integer):
                self.counts.enumerated(names[0].value.value, int(start.value) if start is not None else 0)
            target = names[1].value
            source = self._without_progress(source.args[0].value)
        if isinstance(source, cst.Call) and self._name(source.func) in RANGES:
            self.made_here = True
            raise NotStandard(statement, "its batches are made in the loop, not drawn from a DataLoader", LOADER)
        self.loop.loader = self._loader(source)
        if isinstance(target, cst.Tuple | cst.List):
            if not self.forward.batch.take_apart(target):
                raise NotStandard(statement, APART, DICT)
            return
        assert isinstance(target, cst.Name)
        self.forward.batch.by_name[target.value] = "*"

    def _agree(self) -> None:
        """Whether what the loop does per batch and per step fits together."""
        loop, code = self.loop, self.module.code
        every, divides = loop.accumulation, loop.divides
        if every is None and loop.accumulates:
            if divides is not None:
                self._object(divides, "the loss is divided by hand, and by `accumulate` as well", own_loss=True)
            return
        if every is None:
            if divides is not None:
                why = f"the loss is divided by `{code(divides)}`, and the optimizer steps at every batch"
                self._object(divides, why, own_loss=True)
            return
        if divides is not None and code(divides) != code(every):
            why = f"the loss is divided by `{code(divides)}`, and the optimizer steps every `{code(every)}` batches"
            self._object(divides, why, own_loss=True)
        if self.clips_apart is not None:
            why = "gradients are clipped at every batch, before all of a step are added"
            self._object(self.clips_apart, why, CLIP_AT_STEP)
        for call in self.zeroes:
            why = "gradients are set to zero at every batch, so that only the last one counts"
            self._object(call, why, ZERO_BEHIND)
        if self.schedules_apart is not None:
            self._object(self.schedules_apart, "the schedule steps at every batch, and the optimizer doesn't")

    def _beside(self, line: cst.CSTNode) -> None:
        """A statement of the loop over epochs, before or behind the one over batches."""
        if isinstance(line, cst.If) and any(isinstance(inner, cst.Break | cst.Return) for inner in walk(line)):
            end = self.counts.end(line.test, trained=True)
            known = self.loop.max_steps
            if end is not None and (known is None or self.module.code(known) == self.module.code(end.limit)):
                self.loop.ends_all = True  # said once more between the epochs
                return
        if isinstance(line, cst.Expr) and isinstance(line.value, cst.Call):
            if is_step(line.value):
                self._by_epoch(line.value)
                return
            if self._acts(line.value):
                return
        if isinstance(line, cst.Assign) and isinstance(line.targets[0].target, cst.Name):
            self.made[line.targets[0].target.value] = line.value
        self._watches(line)

    def _by_epoch(self, call: cst.Call) -> None:
        """`scheduler.step()` behind the batches of an epoch."""
        loop, code = self.loop, self.module.code(call)
        owner = self.module.code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        if call.args:
            raise NotStandard(call, f"`{code}` steps by what it is given", STEP_SCHEDULE)
        if not self.stepped or owner == loop.optimizer:
            raise NotStandard(call, f"`{code}` stands at the epoch, not behind its steps", STEP_SCHEDULE)
        if loop.scheduler:
            raise NotStandard(
                call, f"`{code}` stands at the epoch, and a schedule steps with the batches too", ONE_SCHEDULE
            )
        loop.scheduler, loop.scheduled_by_epoch = owner, True

    def _loader(self, source: cst.BaseExpression) -> cst.BaseExpression:
        """What gives the batches: a name, an item by its key, or a call that gives back a DataLoader whole."""
        if isinstance(source, cst.Call):
            last = last_name(source.func)
            if last == "skip_first_batches" and source.args:
                self.loop.left.append(Left(source, "resuming"))
                return source.args[0].value
            if source in self.module.callees or last in WHOLE_LOADERS or GIVES_ALL.search(last):
                return source
        elif isinstance(source, cst.Name | cst.Attribute) or (
            isinstance(source, cst.Subscript) and isinstance(source.slice[0].slice, cst.Index)
        ):
            return source
        code = " ".join(self.module.code(source).split())
        raise NotStandard(source, f"its batches aren't all that a DataLoader gives, in its order: `{code}`", LOADER)

    def _without_progress(self, node: cst.BaseExpression) -> cst.BaseExpression:
        while isinstance(node, cst.Call) and self._name(node.func) in PROGRESS and node.args:
            if last_name(node.func) == "trange":
                break
            node = node.args[0].value
        if isinstance(node, cst.Name):  # bar = tqdm(loader) ... for batch in bar
            binding = self.module.single_binding(node)
            value = binding.value if binding is not None else self.made.get(node.value)
            if isinstance(value, cst.Call) and self._name(value.func) in PROGRESS and value.args:
                return value.args[0].value
        return node


def _in_order(module: Module, found: Sequence[NotStandard]) -> list[NotStandard]:
    """Obstacles by their lines, each once."""
    kept = {(module.location(each.node)[0], each.reason): each for each in reversed(found)}
    return sorted(kept.values(), key=lambda each: module.location(each.node))
