"""A loss that a loop computes from the model's logits, where it is the model's own: the next token's cross-entropy.

logits = model(input_ids, attention_mask=mask).logits
loss = F.cross_entropy(logits[:, :-1].reshape(-1, vocab), labels[:, 1:].reshape(-1), ignore_index=pad)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import libcst as cst

from ....source.module import Module
from ....source.read_value import read_value
from ...script.sites import is_of_gpu_library
from .blocks import last_name
from .made_labels import Unlabelled, is_ignored

if TYPE_CHECKING:
    from .forward import ModelCall

SAME = ("contiguous", "float", "to", "long", "cuda")  # methods behind which a tensor has the same numbers
OF_LOGITS = ("...,:-1,:", ":,:-1,:", ":,:-1")
OF_LABELS = ("...,1:", ":,1:")
BY_CLASS, BY_FUNCTION = "CrossEntropyLoss", "cross_entropy"


@dataclass(frozen=True)
class NextLabels:
    """The labels but for each row's first: the part of the batch that they are, and where they are -100."""

    part: str
    masked: Unlabelled | None
    flat: bool = False


@dataclass(frozen=True)
class Logits:
    """What the model gave back, on its way to a loss: "outputs", "logits", "shifted", "flat" or "turned"."""

    kind: str
    called: ModelCall


class Asked(Protocol):
    """What is known of the forward pass."""

    def outputs_of(self, value: cst.BaseExpression) -> ModelCall | None: ...
    def part(self, value: cst.BaseExpression) -> str | None: ...
    def masked_at(self, value: cst.BaseExpression) -> Unlabelled | None: ...


class OwnLoss:
    """What is known of the names that lead from the model's outputs to a loss of the loop's own.

    `asked` says what an expression is: the model's outputs, a part of the batch, and where that is -100.
    """

    def __init__(self, module: Module, asked: Asked) -> None:
        self.module, self._asked = module, asked
        self.logits: dict[str, Logits] = {}
        self.labels: dict[str, NextLabels] = {}

    def copy(self, asked: Asked) -> OwnLoss:
        """The same, which may learn other things from here on."""
        found = OwnLoss(self.module, asked)
        found.logits, found.labels = dict(self.logits), dict(self.labels)
        return found

    def is_meant(self) -> bool:
        """Whether the file computes a cross-entropy at all."""
        return BY_CLASS in self.module.text or BY_FUNCTION in self.module.text

    def holds(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` is a step on the way, which is remembered."""
        self.logits.pop(name, None)
        self.labels.pop(name, None)
        logits, labels = self._logits(value), self._next(value)
        if logits is not None:
            self.logits[name] = logits
        elif labels is not None:
            self.labels[name] = labels
        return logits is not None or labels is not None

    def of(self, value: cst.BaseExpression) -> tuple[NextLabels, ModelCall] | None:
        """The labels of a loss that is the model's own, and the call of the model; None for any other."""
        if not isinstance(value, cst.Call):
            return None
        settings = self._settings(value.func)
        given = {argument.keyword.value: argument.value for argument in value.args if argument.keyword is not None}
        places = [argument.value for argument in value.args if argument.keyword is None]
        if settings is None or len(places) + ("input" in given) + ("target" in given) != 2:
            return None
        named = dict(zip(("input", "target"), places, strict=False)) | given
        logits, labels = self._logits(named["input"]), self._next(named["target"])
        settings |= {name: node for name, node in given.items() if name not in ("input", "target")}
        if labels is None or logits is None or logits.kind not in ("flat", "turned"):
            return None
        if labels.flat is not (logits.kind == "flat"):
            return None
        if not set(settings) <= {"ignore_index", "reduction"}:
            return None
        reduction, ignored = settings.get("reduction"), settings.get("ignore_index")
        if reduction is not None and not read_value(self.module, reduction).is_literal("mean"):
            return None
        if ignored is None or is_ignored(self.module, ignored):
            return labels, logits.called
        labelled = NextLabels(labels.part, Unlabelled(labels.part, ignored))
        return (labelled, logits.called) if labels.masked is None else None

    def _settings(self, func: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
        """The keywords of the cross-entropy that a call means; None where it means none."""
        if last_name(func) == BY_FUNCTION and is_of_gpu_library(self.module, func):
            return {}
        made: cst.BaseExpression | None = func
        if isinstance(func, cst.Name | cst.Attribute):
            binding = self.module.single_binding(func) if isinstance(func, cst.Name) else None
            found = self.module.meaning(func)
            bindings = [binding] if binding is not None else found[1] if found is not None else []
            made = bindings[0].value if len(bindings) == 1 else None
        if not isinstance(made, cst.Call) or last_name(made.func) != BY_CLASS:
            return None
        if not is_of_gpu_library(self.module, made.func) or any(argument.keyword is None for argument in made.args):
            return None
        return {argument.keyword.value: argument.value for argument in made.args if argument.keyword is not None}

    def _logits(self, value: cst.BaseExpression) -> Logits | None:
        """What an expression is of what the model gave back."""
        if isinstance(value, cst.Name) and value.value in self.logits:
            return self.logits[value.value]
        if (called := self._asked.outputs_of(value)) is not None:
            return Logits("outputs", called)
        inner = value.func if isinstance(value, cst.Call) else value
        if not isinstance(inner, cst.Attribute | cst.Subscript):
            return None
        logits = self._logits(inner.value)
        kind = self._next_kind(value, logits.kind) if logits is not None else None
        return Logits(kind, logits.called) if logits is not None and kind is not None else None

    def _next_kind(self, value: cst.BaseExpression, kind: str) -> str | None:
        """What an attribute, an index or a method makes of what is of a kind; None where that is no step on the way."""
        if isinstance(value, cst.Attribute):
            return "logits" if value.attr.value == "logits" and kind == "outputs" else None
        if isinstance(value, cst.Subscript):
            asked = self._slices(value)
            if kind == "outputs":
                return "logits" if asked in ("0", '"logits"', "'logits'") else None
            return "shifted" if kind == "logits" and asked in OF_LOGITS else None
        method, arguments = self._method(value)
        if not method or kind == "outputs":
            return None
        if method in SAME:
            return kind
        if kind != "shifted":
            return None
        if method in ("view", "reshape") and arguments[:1] == ["-1"] and len(arguments) == 2:
            return "flat"
        if method == "flatten" and arguments == ["0", "1"]:
            return "flat"
        return "turned" if (method, arguments) in (("transpose", ["1", "2"]), ("permute", ["0", "2", "1"])) else None

    def _next(self, value: cst.BaseExpression) -> NextLabels | None:
        if isinstance(value, cst.Name):
            return self.labels.get(value.value)
        if isinstance(value, cst.Subscript):
            part = self._asked.part(value.value) if self._slices(value) in OF_LABELS else None
            return NextLabels(part, self._asked.masked_at(value.value)) if part is not None else None
        method, arguments = self._method(value)
        if not method or not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return None
        labels = self._next(value.func.value)
        if labels is None or method in SAME:
            return labels
        flat = (method in ("view", "reshape") and arguments == ["-1"]) or (method == "flatten" and not arguments)
        return NextLabels(labels.part, labels.masked, flat=True) if flat else None

    def _slices(self, value: cst.Subscript) -> str:
        return ",".join(self.module.code(element.slice).replace(" ", "") for element in value.slice)

    def _method(self, value: cst.BaseExpression) -> tuple[str, list[str]]:
        """The method that an expression calls, and its arguments."""
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return "", []
        return value.func.attr.value, [self.module.code(argument.value) for argument in value.args]
