"""The forward pass of a training loop: which names hold the batch, the model's outputs and the loss."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import libcst as cst

from ....source.module import Module
from .batch_parts import MODEL_INPUTS, UNKNOWN, BatchParts
from .blocks import last_name
from .made_labels import Unlabelled
from .not_standard import NotStandard
from .own_loss import OwnLoss


@dataclass(frozen=True)
class ModelCall:
    """A call of a model: `inputs` is what it is given, keyword → key of the batch, and its labels are -100 where
    `unlabelled` says. They may be its `input_ids`, and then padding trains, too. Of an unknown call all is empty."""

    call: cst.Call | None = None
    model: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    unlabelled: Unlabelled | None = None


class ForwardPass:
    """What is known of the names of a loop's body, statement by statement: the batch, outputs and losses.

    `trained` is the call of which the loss is that backward is called of; the last one until then.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.batch = BatchParts(module)
        self.trained = ModelCall()
        self.outputs: dict[str, ModelCall] = {}
        self.losses: dict[str, ModelCall] = {}
        self.own_loss = OwnLoss(module, self)
        self._settled = False  # backward has been called of a loss

    @property
    def model(self) -> str:
        """The model that is trained, by its name; empty where none is called."""
        return self.trained.model

    def copy(self) -> ForwardPass:
        """The same, which may learn other things from here on."""
        found = ForwardPass(self.module)
        found.batch, found.trained = self.batch.copy(), self.trained
        found.outputs, found.losses = dict(self.outputs), dict(self.losses)
        found.own_loss, found._settled = self.own_loss.copy(found), self._settled
        return found

    def remember(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` holds the outputs, the loss or a part of the batch, which is remembered."""
        called, loss = self._outputs_with_loss(value), None
        if called is None:
            loss = self.loss_of(value)
        if called is None and loss is None:
            return self.batch.holds(name, value) or self.own_loss.holds(name, value)
        if called is not None:
            self.outputs[name] = called
        elif loss is not None:
            self.losses[name] = loss
        self.trained = self.trained if self._settled else called or loss or self.trained
        return True

    def trains(self, called: ModelCall) -> None:
        """Backward is called of the loss of this call; a later one is of no training."""
        self.trained, self._settled = called, True

    def unsaid(self, name: str) -> None:
        """A name may hold outputs or a loss of which something is said already, and no more has to be."""
        self.outputs[name] = self.losses[name] = self.trained

    def held(self) -> set[str]:
        """Names of which the step is made yet: of the batch and the loss; before that what it is made of, before the
        forward pass what the model is given."""
        found = {*self.losses, *(name for name, part in self.batch.by_name.items() if part != UNKNOWN)}
        if not self.losses:
            found |= {*self.outputs, *self.own_loss.logits, *self.own_loss.labels}
        called = self.trained.call is not None or self.own_loss.logits
        return found if called else found | self.batch.dicts.keys()

    def makes_labels(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Whether an assignment to a part of the batch makes its labels, before a model gets them."""
        return self.trained.call is None and self.batch.makes_labels(target, value)

    def fills_labels(self, call: cst.Call) -> bool:
        """Whether a call does."""
        return self.trained.call is None and self.batch.fills(call)

    def is_loss(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a loss that a model computes from the batch."""
        return self.loss_of(node) is not None

    def loss_of(self, node: cst.BaseExpression) -> ModelCall | None:
        """The call of a model that computes a loss; None for what is no loss."""
        if isinstance(node, cst.Name):
            return self.losses.get(node.value)
        if isinstance(node, cst.Call):
            if last_name(node.func) == "mean" and isinstance(node.func, cst.Attribute) and not node.args:
                return self.loss_of(node.func.value)  # of several GPUs, or of one number
            return self._own(node)
        if not isinstance(node, cst.Attribute | cst.Subscript):
            return None
        first = isinstance(node, cst.Subscript) and self.module.code(node).endswith(("[0]", '["loss"]', "['loss']"))
        if not first and not (isinstance(node, cst.Attribute) and node.attr.value == "loss"):
            return None
        if isinstance(node.value, cst.Name):
            return self.outputs.get(node.value.value)
        return self._outputs_with_loss(node.value)

    def _own(self, value: cst.Call) -> ModelCall | None:
        """The call of whose logits a loss of the loop's own is the model's, with the labels that it takes."""
        found = self.own_loss.of(value)
        if found is None:
            return None
        labels, called = found
        known = labels.part in ("labels", "input_ids", "*") or labels.part.isdigit()
        if called.call is None or not known:
            return None
        return replace(called, inputs={**called.inputs, "labels": labels.part}, unlabelled=labels.masked)

    def outputs_of(self, value: cst.BaseExpression) -> ModelCall | None:
        """The call of the model that gave an expression back, with a loss in it or without."""
        return self.outputs.get(value.value) if isinstance(value, cst.Name) else self._model_call(value)

    def part(self, value: cst.BaseExpression) -> str | None:
        """Which part of the batch an expression is."""
        return self.batch.part(value)

    def masked_at(self, value: cst.BaseExpression) -> Unlabelled | None:
        """Where a part of the batch is -100 by what the loop did."""
        return self.batch.masked_at(value)

    def means(self, line: cst.CSTNode) -> bool:
        """`loss = loss.mean()`: the mean over what several GPUs of one process found."""
        target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
        if not isinstance(target, cst.Name) or not isinstance(line, cst.Assign):
            return False
        return self.is_loss(line.value) and self.module.code(line.value) == f"{target.value}.mean()"

    def _outputs_with_loss(self, value: cst.BaseExpression) -> ModelCall | None:
        called = self._model_call(value)
        return called if called is not None and "labels" in called.inputs else None

    def _model_call(self, value: cst.BaseExpression) -> ModelCall | None:
        """A call that gives a model the batch; NotStandard where it gives it something else."""
        if not isinstance(value, cst.Call) or not self.is_model(value):
            return None
        found = self._given(value)
        if found is None:
            return None
        given, masked = found
        if "labels" not in given:
            if given and not self.own_loss.is_meant():
                said = "the model gets no labels, so the loss is computed by the loop itself"
                raise NotStandard(value, said, own_loss=True)
            if not given:
                return None
        elif given["labels"] not in ("labels", "input_ids", "*") and not given["labels"].isdigit():
            raise NotStandard(value, f"the labels are {given['labels']!r} of the batch", own_loss=True)
        return ModelCall(value, self.module.code(value.func), given, masked)

    def is_model(self, call: cst.Call) -> bool:
        """A name that is no function of the file or of Python's, or `self.model`."""
        func = call.func
        if not isinstance(func, cst.Attribute) or self.module.code(func.value) != "self":
            named = isinstance(func, cst.Name) and not hasattr(builtins, func.value)
            return named and call not in self.module.callees
        found = self.module.meaning(func)
        return found is not None and all(binding.kind != "definition" for binding in found[1])

    def _given(self, call: cst.Call) -> tuple[dict[str, str], Unlabelled | None] | None:
        """Which parts of the batch a call gives, and where the labels are -100; None where it gives other things."""
        given: dict[str, str] = {}
        masked: Unlabelled | None = None
        whole = False
        for index, argument in enumerate(call.args):
            name = argument.keyword.value if argument.keyword is not None else ("input_ids" if index == 0 else "")
            part = self.batch.part(argument.value)
            if argument.star == "**":
                keys = self.batch.dict_of(argument.value) if part is None else None
                if keys is None and part not in ("*", UNKNOWN):
                    return None
                whole = whole or keys is None
                for key, of_batch in keys.items() if keys is not None else ():
                    self._give(given, argument, key, of_batch)
                masked = self.batch.masked_in(argument.value) if "labels" in (keys or ()) else masked
            elif name in ("use_cache", "return_dict") or self.module.code(argument.value) == "None":
                continue
            elif part is None or (part == "*" and name not in ("input_ids", "labels")):
                return None
            else:
                self._give(given, argument, name, part)
                found = self.batch.only_of_labels(argument.value, name)
                masked = found if name == "labels" else masked
        if whole:
            if "labels" in self.batch.keys and "labels" not in given:
                masked = self.batch.masked.get("[labels]")
            given = self.batch.whole() | given
        return given, masked

    def _give(self, given: dict[str, str], argument: cst.Arg, name: str, part: str) -> None:
        if part == UNKNOWN:
            part = name
        named = part in (name, "*") or part.isdigit()  # by its key, its place in a tuple, or the batch itself
        if name not in MODEL_INPUTS or not (named or name == "labels"):
            said = f"the model gets {part!r} of the batch as {name or 'a second argument'}"
            raise NotStandard(argument, said, own_loss="labels" in part or name == "labels")
        given[name] = part
