"""Training loops written by hand: forward, backward, optimizer step. Which are the standard one, and which line isn't.

A loop is read statement by statement. Each must be a part of the standard loop (the batch to the device, the forward
pass and its loss, backward, clipping, the steps, accumulation, an end after so many steps) or only watch it (progress
bars, prints, logging). The first that is neither makes the loop the user's own, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from ....source.module import Module
from ....source.scopes import walk
from .loop_forward import ForwardPass, NotStandard

PROGRESS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.trange", "tqdm.auto.trange")
# Methods that change nothing of the model, the optimizer and the schedule.
READS = (
    "get_last_lr", "get_lr", "state_dict", "param_groups", "parameters", "named_parameters", "device", "dtype",
    "config", "module", "print_trainable_parameters", "get_scale", "get_global_grad_norm", "state", "train",
    "num_parameters",
)  # fmt: skip
SAVES = ("save_pretrained", "save_state", "save_model", "save_checkpoint", "push_to_hub", "torch.save")


@dataclass(frozen=True)
class Left:
    """A statement of the loop that the port has no room for: `what` it did."""

    node: cst.CSTNode
    what: str


@dataclass
class Loop:
    """A standard training loop: `statement` is the whole of it; names are those of the source.

    `inputs` is what the model is given: keyword → key of the batch. Its `labels` may be the `input_ids`.
    `accumulates` when `accelerator.accumulate` decides, by the Accelerator's own setting.
    """

    statement: cst.For
    model: str = ""
    optimizer: str = ""
    scheduler: str = ""
    loader: cst.BaseExpression | None = None
    epochs: cst.BaseExpression | None = None
    max_steps: cst.BaseExpression | None = None
    accumulation: cst.BaseExpression | None = None
    accumulates: bool = False
    clip: cst.BaseExpression | None = None
    autocast: bool = False
    inputs: dict[str, str] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)


def training_loops(module: Module) -> list[cst.For | cst.While]:
    """The outermost loops that call `backward`, in source order."""
    found: list[cst.For | cst.While] = []
    for call in module.calls_that(_is_backward_call):
        around = []
        for node in module.ancestors(call):
            if isinstance(node, cst.FunctionDef | cst.ClassDef):
                break
            if isinstance(node, cst.For | cst.While):
                around.append(node)
        if around and around[-1] not in found:
            found.append(around[-1])
    return found


def _is_backward_call(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"


def read_loop(module: Module, statement: cst.For | cst.While) -> Loop:
    """What a standard training loop says. NotStandard names the first line that isn't part of one."""
    if isinstance(statement, cst.While):
        raise NotStandard(statement, "a `while` loop decides by itself when it ends")
    return _Reader(module, Loop(statement)).read()


class _Reader:
    def __init__(self, module: Module, loop: Loop) -> None:
        self.module, self.loop = module, loop
        self.forward = ForwardPass(module)
        self.backward = False
        self.stepped = False

    def read(self) -> Loop:
        loop, statement = self.loop, self.loop.statement
        inner = self._inner(statement)
        if inner is statement:
            self._over_batches(statement)
        else:
            loop.epochs = self._epochs(statement)
            for line in _lines(statement.body):
                if line is inner:
                    self._over_batches(inner)
                else:
                    self._beside(line)
        loop.model, loop.inputs = self.forward.model, self.forward.inputs
        if not self.backward or not self.stepped:
            raise NotStandard(statement, "it has no `loss.backward()` with an `optimizer.step()` behind it")
        return loop

    def _inner(self, statement: cst.For) -> cst.For:
        """The loop over batches: the one in `statement` that holds backward itself."""
        for line in _lines(statement.body):
            if isinstance(line, cst.For) and any(_is_backward(node) for node in walk(line)):
                return line
        return statement

    def _epochs(self, statement: cst.For) -> cst.BaseExpression:
        """The E of `for epoch in range(E)`, also inside tqdm."""
        source = self._without_progress(statement.iter)
        if isinstance(source, cst.Call) and self._name(source.func) in ("range", "tqdm.trange", "tqdm.auto.trange"):
            values = [argument.value for argument in source.args if argument.keyword is None]
            if len(values) == 1:
                return values[0]
            if len(values) == 2 and self.module.code(values[0]) == "0":
                return values[1]
            if len(values) == 2 and isinstance(values[0], cst.Name):  # range(starting_epoch, epochs)
                self.loop.left.append(Left(values[0], "resuming"))
                return values[1]
            end = values[-1] if values else None
            if len(values) == 2 and isinstance(end, cst.BinaryOperation) and isinstance(end.operator, cst.Add):
                if self.module.code(values[0]) == self.module.code(end.right) == "1":  # range(1, epochs + 1)
                    return end.left
        raise NotStandard(statement.iter, "epochs are not counted with `range(epochs)`")

    def _over_batches(self, statement: cst.For) -> None:
        source = self._without_progress(statement.iter)
        target: cst.BaseExpression = statement.target
        if isinstance(source, cst.Call) and self._name(source.func) == "enumerate":
            names = target.elements if isinstance(target, cst.Tuple) else ()
            if len(names) != 2 or not isinstance(names[0].value, cst.Name) or not source.args:
                raise NotStandard(statement, "`enumerate` gives a number and a batch")
            target = names[1].value
            source = self._without_progress(source.args[0].value)
        if not isinstance(target, cst.Name):
            raise NotStandard(statement, "a batch is taken apart where it is drawn")
        self.forward.parts[target.value] = "*"
        self.loop.loader = source
        self._body(_lines(statement.body))

    def _body(self, lines: Sequence[cst.CSTNode]) -> None:
        for line in lines:
            if isinstance(line, cst.With):
                for item in line.items:
                    self._context(item.item)
                self._body(_lines(line.body))
            elif isinstance(line, cst.If):
                self._condition(line)
            elif isinstance(line, cst.For | cst.While | cst.Try | cst.FunctionDef | cst.ClassDef | cst.Match):
                self._watches(line)
            else:
                self._small(line)

    def _context(self, node: cst.BaseExpression) -> None:
        call = node.func if isinstance(node, cst.Call) else node
        last = self._name(call).rsplit(".", 1)[-1]
        if last == "accumulate":
            self.loop.accumulates = True
        elif last == "autocast":
            self.loop.autocast = True
        elif last not in ("nullcontext", "set_detect_anomaly"):
            raise NotStandard(node, "what this context does to the step is not known")

    def _condition(self, node: cst.If) -> None:
        """`if (step + 1) % n == 0:` around the steps, `if step >= n: break`, and what only watches."""
        lines = _lines(node.body)
        modulus = next((n for n in walk(node.test) if _is_modulo(n)), None)
        synced = self.module.code(node.test).endswith("sync_gradients")
        if any(self._is_step(inner) for line in lines for inner in walk(line)):
            if modulus is not None and isinstance(modulus, cst.BinaryOperation):
                self.loop.accumulation = modulus.right
            elif not synced:
                raise NotStandard(node, "when the optimizer steps depends on something else than the number of batches")
            self._body(lines)
            if node.orelse is not None:
                self._watches(node.orelse)
            return
        if synced:
            self._body(lines)
            return
        if any(isinstance(inner, cst.Break) for line in lines for inner in walk(line)):
            self._end(node)
            return
        if any(_is_backward(inner) for inner in walk(node)):
            raise NotStandard(node, "only some batches train")
        self._watches(node)

    def _end(self, node: cst.If) -> None:
        """`if completed_steps >= max_steps: break`."""
        test = node.test
        if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            part = test.comparisons[0]
            if isinstance(part.operator, cst.GreaterThanEqual | cst.Equal):
                self.loop.max_steps = part.comparator
                return
        raise NotStandard(node, "why it ends before the last batch is not known")

    def _small(self, line: cst.CSTNode) -> None:
        """One simple statement of the loop over batches."""
        node = line
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target, value = node.targets[0].target, node.value
            if isinstance(target, cst.Name) and self._assigns(target.value, value):
                return
        if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.DivideAssign) and not self.backward:
            if isinstance(node.target, cst.Name) and node.target.value in self.forward.losses:
                self.loop.accumulation = node.value
                return
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and self._acts(node.value):
            return
        self._watches(node)

    def _assigns(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` is a part of the loop; remembers what `name` holds then."""
        if self.forward.remember(name, value):
            return True
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Divide):
            if not self.backward and self.forward.is_loss(value.left):
                self.forward.losses.add(name)
                self.loop.accumulation = value.right
                return True
        if isinstance(value, cst.Call) and self._last(value.func) == "clip_grad_norm_":
            return self._acts(value)
        return False

    def _acts(self, call: cst.Call) -> bool:
        """Backward, clipping, the steps; False for any other call."""
        last, code = self._last(call.func), self.module.code
        owner = code(call.func.value) if isinstance(call.func, cst.Attribute) else ""
        if last == "backward":
            loss = (
                call.args[0].value if call.args else call.func.value if isinstance(call.func, cst.Attribute) else None
            )
            self._backward(call, loss)
            return True
        if last == "clip_grad_norm_":
            values = [argument.value for argument in call.args]
            if len(values) < 2:
                raise NotStandard(call, "what the gradients are clipped to is not given")
            self.loop.clip = values[1]
            return True
        if last == "step" and call.args and owner and code(call.args[0].value) == self.loop.optimizer:
            return True  # scaler.step(optimizer), behind which the optimizer is known
        if last == "step" and self.backward:
            if call.args:  # scaler.step(optimizer)
                self.loop.optimizer = code(call.args[0].value)
                self.stepped = True
            elif not self.stepped:
                self.loop.optimizer, self.stepped = owner, True
            elif owner != self.loop.optimizer:
                self.loop.scheduler = owner
            return True
        if last == "zero_grad" or (last in ("unscale_", "update") and "scaler" in owner.lower()):
            return True
        return last == "train" and owner in (self.forward.model, "model") and not call.args

    def _backward(self, call: cst.Call, loss: cst.BaseExpression | None) -> None:
        if isinstance(loss, cst.Call) and self._last(loss.func) == "scale" and loss.args:  # scaler.scale(loss)
            loss = loss.args[0].value
        if isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, cst.Divide):
            self.loop.accumulation, loss = loss.right, loss.left
        if loss is None or not self.forward.is_loss(loss):
            raise NotStandard(call, "this loss is not the one that the model computes from its labels")
        self.backward = True

    def _is_step(self, node: cst.CSTNode) -> bool:
        if not (
            isinstance(node, cst.Call) and self._last(node.func) == "step" and isinstance(node.func, cst.Attribute)
        ):
            return False
        return self.module.code(node.func.value).rsplit(".", 1)[-1] not in ("profiler", "prof", "progress_bar", "bar")

    def _beside(self, line: cst.CSTNode) -> None:
        """A statement of the loop over epochs, before or behind the one over batches."""
        if isinstance(line, cst.Expr) and isinstance(line.value, cst.Call) and self._acts(line.value):
            return
        self._watches(line)

    def _watches(self, line: cst.CSTNode) -> None:
        """Accepts what only looks on. What it did besides is kept in `left`; NotStandard when it takes part."""
        named = {self.forward.model, self.loop.optimizer, self.loop.scheduler} - {""}
        trained = named | {"model", "optimizer", "scheduler"}
        what = "logging"
        for node in walk(line):
            if isinstance(node, cst.Call):
                last, full = self._last(node.func), self.module.code(node.func)
                if last in SAVES or full in SAVES:
                    what = "saving"
                    continue
                if _is_backward(node) or last in ("requires_grad_", "load_state_dict", "load_adapter"):
                    raise NotStandard(node, f"`{full}` takes part in the training in a way of its own")
                if last == "eval" or full.endswith(("evaluate", "validate", "eval_loop")):
                    what = "evaluation" if what == "logging" else what
                owner = self.module.code(node.func.value) if isinstance(node.func, cst.Attribute) else ""
                if owner.split(".", 1)[0] in trained and last not in (*READS, "eval", "generate") and what != "saving":
                    raise NotStandard(node, f"`{full}` may change what is trained")
            if isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign):
                for target in _targets(node):
                    text = self.module.code(target)
                    head = text.split(".", 1)[0].split("[", 1)[0]
                    if (
                        text.endswith((".grad", ".data"))
                        or head in trained
                        or (head in self.forward.losses and not self.backward)
                        or (head in self.forward.parts and not self.backward)
                    ):
                        raise NotStandard(node, f"`{head}` is changed between the batch and the step")
            if isinstance(node, cst.Continue) and not isinstance(line, cst.For | cst.While):
                raise NotStandard(node, "some batches are left out")
            if isinstance(node, cst.Break) and not isinstance(line, cst.For | cst.While):
                raise NotStandard(node, "why it ends before the last batch is not known")
        self.loop.left.append(Left(line, what))

    def _without_progress(self, node: cst.BaseExpression) -> cst.BaseExpression:
        while isinstance(node, cst.Call) and self._name(node.func) in PROGRESS and node.args:
            if self._last(node.func) == "trange":
                break
            node = node.args[0].value
        if isinstance(node, cst.Name):  # bar = tqdm(loader) ... for batch in bar
            binding = self.module.single_binding(node)
            value = binding.value if binding is not None else None
            if isinstance(value, cst.Call) and self._name(value.func) in PROGRESS and value.args:
                return value.args[0].value
        return node

    def _name(self, node: cst.BaseExpression) -> str:
        return self.module.qualified(node) or self.module.code(node)

    def _last(self, node: cst.BaseExpression) -> str:
        return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""


def _lines(body: cst.BaseSuite) -> list[cst.CSTNode]:
    """The statements of a block: simple ones one by one."""
    if not isinstance(body, cst.IndentedBlock):
        return list(getattr(body, "body", ()))
    found: list[cst.CSTNode] = []
    for line in body.body:
        found.extend(line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    return found


def _is_backward(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "backward"


def _is_modulo(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)


def _targets(node: cst.Assign | cst.AugAssign | cst.AnnAssign) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Assign):
        return [target.target for target in node.targets]
    return [node.target]
