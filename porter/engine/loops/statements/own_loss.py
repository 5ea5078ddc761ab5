"""A loss that a loop computes from the model's logits, where it is the model's own: the next token's cross-entropy.

logits = model(input_ids, attention_mask=mask).logits
loss = F.cross_entropy(logits[:, :-1].reshape(-1, vocab), labels[:, 1:].reshape(-1), ignore_index=pad)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import libcst as cst

from ....source.module import Module
from ....source.read_value import read_value
from ...script.sites import is_of_gpu_library
from .blocks import last_name
from .made_labels import Unlabelled, is_ignored

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


class Asked(Protocol):
    """What is known of the forward pass."""

    def is_outputs(self, value: cst.BaseExpression) -> bool: ...
    def part(self, value: cst.BaseExpression) -> str | None: ...
    def masked_at(self, value: cst.BaseExpression) -> Unlabelled | None: ...


class OwnLoss:
    """What is known of the names that lead from the model's outputs to a loss of the loop's own.

    `asked` says what an expression is: the model's outputs, a part of the batch, and where that is -100.
    """

    def __init__(self, module: Module, asked: Asked) -> None:
        self.module, self._asked = module, asked
        self.logits: dict[str, str] = {}  # name → "outputs", "logits", "shifted", "flat" or "turned"
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
        kind, labels = self._kind(value), self._next(value)
        if kind is not None:
            self.logits[name] = kind
        elif labels is not None:
            self.labels[name] = labels
        return kind is not None or labels is not None

    def of(self, value: cst.BaseExpression) -> NextLabels | None:
        """The labels of a loss that is the model's own; None for any other."""
        if not isinstance(value, cst.Call):
            return None
        settings = self._settings(value.func)
        given = {argument.keyword.value: argument.value for argument in value.args if argument.keyword is not None}
        places = [argument.value for argument in value.args if argument.keyword is None]
        if settings is None or len(places) + ("input" in given) + ("target" in given) != 2:
            return None
        named = dict(zip(("input", "target"), places, strict=False)) | given
        kind, labels = self._kind(named["input"]), self._next(named["target"])
        settings |= {name: node for name, node in given.items() if name not in ("input", "target")}
        if labels is None or kind not in ("flat", "turned") or labels.flat is not (kind == "flat"):
            return None
        if not set(settings) <= {"ignore_index", "reduction"}:
            return None
        reduction, ignored = settings.get("reduction"), settings.get("ignore_index")
        if reduction is not None and not read_value(self.module, reduction).is_literal("mean"):
            return None
        if ignored is None or is_ignored(self.module, ignored):
            return labels
        return NextLabels(labels.part, Unlabelled(labels.part, ignored)) if labels.masked is None else None

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

    def _kind(self, value: cst.BaseExpression) -> str | None:
        if self._asked.is_outputs(value):
            return "outputs"
        if isinstance(value, cst.Name):
            return self.logits.get(value.value)
        if isinstance(value, cst.Attribute):
            return "logits" if value.attr.value == "logits" and self._kind(value.value) == "outputs" else None
        if isinstance(value, cst.Subscript):
            kind, asked = self._kind(value.value), self._slices(value)
            if kind == "outputs":
                return "logits" if asked in ("0", '"logits"', "'logits'") else None
            return "shifted" if kind == "logits" and asked in OF_LOGITS else None
        method, arguments = self._method(value)
        if not method or not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return None
        kind = self._kind(value.func.value)
        if kind is None or kind == "outputs":
            return None
        if method in SAME:
            return kind
        if kind == "shifted" and method in ("view", "reshape") and arguments[:1] == ["-1"] and len(arguments) == 2:
            return "flat"
        if kind == "shifted" and method == "flatten" and arguments == ["0", "1"]:
            return "flat"
        turned = (method, arguments) in (("transpose", ["1", "2"]), ("permute", ["0", "2", "1"]))
        return "turned" if kind == "shifted" and turned else None

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
