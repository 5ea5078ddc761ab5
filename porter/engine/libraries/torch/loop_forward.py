"""The forward pass of a training loop: which names hold the batch, its parts, the model's outputs and the loss."""

from __future__ import annotations

import libcst as cst

from ....source.module import Module

# Keywords of a causal language model's forward pass that a batch may give it.
MODEL_INPUTS = ("input_ids", "attention_mask", "labels", "position_ids", "use_cache", "return_dict")


class NotStandard(Exception):
    """A loop that trains in its own way: `node` is the line that shows it, `reason` why it can't be ported."""

    def __init__(self, node: cst.CSTNode, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


class ForwardPass:
    """What is known of the names of a loop's body, statement by statement.

    `parts`: name → key of the batch that it holds ("*": the whole). `model` is what was called, `inputs` what it was
    given: keyword → key of the batch. `labels` may be its `input_ids`, and then padding trains, too.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.model = ""
        self.inputs: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.outputs: set[str] = set()
        self.losses: set[str] = set()

    def remember(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` holds the outputs, the loss or a part of the batch, which is remembered."""
        found = self._result(value)
        part = self.part(value) if found is None else None
        if found is not None:
            (self.outputs if found == "outputs" else self.losses).add(name)
        elif part is not None:
            self.parts[name] = part
        return found is not None or part is not None

    def _result(self, value: cst.BaseExpression) -> str | None:
        """`outputs` for the model's result, `loss` for the loss in it."""
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and self._inputs(value):
            self.model = value.func.value
            return "outputs"
        first = isinstance(value, cst.Subscript) and self.module.code(value).endswith(("[0]", '["loss"]', "['loss']"))
        named = isinstance(value, cst.Attribute) and value.attr.value == "loss"
        inner = value.value if isinstance(value, cst.Attribute | cst.Subscript) and (first or named) else None
        if isinstance(inner, cst.Name) and inner.value in self.outputs:
            return "loss"
        if inner is not None and self._result(inner) == "outputs":
            return "loss"
        return None

    def is_loss(self, node: cst.BaseExpression) -> bool:
        named = isinstance(node, cst.Name) and node.value in self.losses
        return named or self._result(node) == "loss"

    def _inputs(self, call: cst.Call) -> bool:
        """Whether a call gives a model the batch; `inputs` notes which parts."""
        given: dict[str, str] = {}
        whole = False
        for index, argument in enumerate(call.args):
            if argument.star == "**":
                if self.part(argument.value) != "*":
                    return False
                whole = True
                continue
            name = argument.keyword.value if argument.keyword is not None else ("input_ids" if index == 0 else "")
            part = self.part(argument.value)
            if name in ("use_cache", "return_dict"):
                continue
            if part is None or part == "*":
                return False
            if name not in MODEL_INPUTS or (part != name and name != "labels"):
                raise NotStandard(argument, f"the model gets {part!r} of the batch as {name or 'a second argument'}")
            given[name] = part
        if whole:
            given = {name: name for name in ("input_ids", "attention_mask", "labels")} | given
        if "labels" not in given:
            if given:
                raise NotStandard(call, "the model gets no labels, so the loss is computed by the loop itself")
            return False
        if given["labels"] not in ("labels", "input_ids"):
            raise NotStandard(call, f"the labels are {given['labels']!r} of the batch")
        self.inputs = given
        return True

    def part(self, value: cst.BaseExpression) -> str | None:
        """Which part of the batch an expression is: `*` for all of it, moved to a device or not."""
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            if value.func.attr.value in ("to", "cuda", "long", "clone"):
                return self.part(value.func.value)
        if isinstance(value, cst.Name):
            return self.parts.get(value.value)
        if isinstance(value, cst.Subscript) and self.part(value.value) == "*":
            text = self.module.code(value)
            key = text[text.index("[") + 1 : -1].strip("'\" ")
            return key if key.isidentifier() else None
        if isinstance(value, cst.DictComp) and isinstance(value.for_in.iter, cst.Call):
            items = value.for_in.iter.func
            moved = isinstance(items, cst.Attribute) and items.attr.value == "items" and self.part(items.value) == "*"
            names = self.module.code(value.for_in.target).strip("()").split(",")
            if moved and len(names) == 2 and value.for_in.inner_for_in is None:
                held = names[1].strip()
                text = self.module.code(value.value)
                if text == held or text.startswith((f"{held}.to(", f"{held}.cuda(")):
                    return "*"
        return None
