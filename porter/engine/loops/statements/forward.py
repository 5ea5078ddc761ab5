"""The forward pass of a training loop: which names hold the batch, its parts, the model's outputs and the loss."""

from __future__ import annotations

import re

import libcst as cst

from ....source.module import Module
from ....source.scopes import walk
from .blocks import last_name
from .made_labels import Unlabelled, filled, is_copy, is_ignored, where
from .own_loss import NextLabels, OwnLoss

# Keywords of a causal language model's forward pass that a batch may give it.
MODEL_INPUTS = ("input_ids", "attention_mask", "labels", "position_ids", "use_cache", "return_dict")

# Functions that put a batch on a device: accelerate's send_to_device, and those that others write.
TO_DEVICE = re.compile(r"(?:^|[._])to_(?:the_)?(?:device|gpu|cuda)$")

MOVES = ("to", "cuda", "long")  # methods of a tensor behind which it is the same

UNKNOWN = "?"  # a part of the batch of which it is said already that it can't be told which


class NotStandard(Exception):
    """A loop that trains in its own way: `node` is the line that shows it, `reason` why it can't be ported.

    `fix`: what to write instead, where that is known; `own_loss`: whether it is the loss, or its labels, that isn't the
    model's.
    """

    def __init__(self, node: cst.CSTNode, reason: str, fix: str = "", *, own_loss: bool = False) -> None:
        super().__init__(reason)
        self.node, self.reason, self.fix, self.own_loss = node, reason, fix, own_loss


class ForwardPass:
    """What is known of the names of a loop's body, statement by statement.

    `parts`: name → key of the batch that it holds ("*": the whole). `model` is what was called, `inputs` what it was
    given: keyword → key of the batch. `labels` may be its `input_ids`, and then padding trains, too.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.model = ""
        self.call: cst.Call | None = None
        self.inputs: dict[str, str] = {}
        self.dicts: dict[str, dict[str, str]] = {}  # name → what a dict of parts of the batch gives the model
        self.parts: dict[str, str] = {}
        self.outputs: set[str] = set()
        self.losses: set[str] = set()
        self.own: set[str] = set()  # names of tensors that the loop may change
        self.keys: dict[str, str] = {}  # key → key of the batch of which the loop has put something there
        self.masked: dict[str, Unlabelled] = {}  # name, or [key], → where it is -100
        self.unlabelled: Unlabelled | None = None  # the same of the labels that the model gets
        self.own_loss = OwnLoss(module, self)
        self.bare: tuple[cst.Call, dict[str, str]] | None = None  # a call of the model without labels, what it is given

    def copy(self) -> ForwardPass:
        """The same, which may learn other things from here on."""
        found = ForwardPass(self.module)
        found.model, found.call, found.inputs = self.model, self.call, dict(self.inputs)
        found.dicts, found.parts = dict(self.dicts), dict(self.parts)
        found.outputs, found.losses = set(self.outputs), set(self.losses)
        found.own, found.keys, found.masked = set(self.own), dict(self.keys), dict(self.masked)
        found.unlabelled, found.bare = self.unlabelled, self.bare
        found.own_loss = self.own_loss.copy(found)
        return found

    def remember(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` holds the outputs, the loss or a part of the batch, which is remembered."""
        found = self._result(value)
        part = self.part(value) if found is None else None
        keys = self._dict(value) if isinstance(value, cst.Dict) else self._chosen(value)
        if found is not None:
            (self.outputs if found == "outputs" else self.losses).add(name)
        elif part is not None:
            self.parts[name] = part
            self._hold(name, value)
        elif keys is not None:
            self.dicts[name] = keys
            masked = self._masked_in(value)
            self.masked = {held: each for held, each in self.masked.items() if held != f"{name}[labels]"}
            self.masked |= {f"{name}[labels]": masked} if masked is not None else {}
        else:
            return self.own_loss.holds(name, value)
        return True

    def held(self) -> set[str]:
        """Names of which the step is made yet: of the batch and the loss; before that what it is made of, before the
        forward pass what the model is given."""
        found = self.losses | {name for name, part in self.parts.items() if part != UNKNOWN}
        if not self.losses:
            found |= self.outputs | self.own_loss.logits.keys() | self.own_loss.labels.keys()
        return found | (self.dicts.keys() if self.call is None and self.bare is None else set())

    def _hold(self, name: str, value: cst.BaseExpression) -> None:
        """What is known of a part of the batch goes along to where it is held."""
        masked = self.masked_at(value)
        self.own = self.own | {name} if is_copy(value) else self.own - {name}
        self.masked = {held: each for held, each in self.masked.items() if held != name}
        if masked is not None:
            self.masked[name] = masked

    def makes_labels(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Whether `batch["labels"] = ids.clone()` or `labels[mask == 0] = -100` makes the labels, which is noted."""
        if self.call is not None or not isinstance(target, cst.Subscript) or len(target.slice) != 1:
            return False
        part, key = self.part(value), self._key(target)
        if key == "labels" and part not in (None, "*", UNKNOWN):
            assert part is not None
            self.keys[key] = part
            self._hold(f"[{key}]", value)
            return True
        index = target.slice[0].slice
        held = self._held(target.value)
        if not isinstance(index, cst.Index) or held not in self.own or not is_ignored(self.module, value):
            return False
        asked = where(self.module, index.value, self.part)
        if asked is None or held in self.masked:
            return False
        self.masked[held] = asked
        return True

    def _key(self, node: cst.BaseExpression) -> str | None:
        """`labels` of `batch["labels"]`."""
        if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Name):
            return None
        if self.parts.get(node.value.value) != "*":
            return None
        text = self.module.code(node)
        key = text[text.index("[") + 1 : -1].strip("'\" ")
        return key if key.isidentifier() or key.isdigit() else None

    def _held(self, node: cst.BaseExpression) -> str:
        """By what a part of the batch is held: a name, or a key of the batch."""
        key = self._key(node)
        return node.value if isinstance(node, cst.Name) else f"[{key}]" if key is not None else ""

    def masked_at(self, value: cst.BaseExpression) -> Unlabelled | None:
        """Where a part of the batch is -100 by what the loop did."""
        if (made := filled(self.module, value)) is not None:
            return where(self.module, made[1], self.part, keeps=made[2])
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and self.part(value) is not None:
            return self.masked_at(value.func.value)
        return self.masked.get(self._held(value))

    def unknown(self, target: cst.BaseExpression) -> None:
        """Names that hold some part of a batch: that is said already, and what is made of them isn't any more."""
        for name in walk(target):
            if isinstance(name, cst.Name):
                self.parts.setdefault(name.value, UNKNOWN)

    def take_apart(self, target: cst.Tuple | cst.List) -> bool:
        """`ids, mask, labels = batch`: each name holds the part of its place. Whether that is all that it does."""
        if not all(isinstance(each, cst.Element) and isinstance(each.value, cst.Name) for each in target.elements):
            self.unknown(target)
            return False
        for place, each in enumerate(target.elements):
            assert isinstance(each.value, cst.Name)
            self.parts[each.value.value] = str(place)
        return True

    def _dict(self, value: cst.Dict) -> dict[str, str] | None:
        """`{"input_ids": batch["input_ids"].to(device), ...}`: keyword → key of the batch."""
        found: dict[str, str] = {}
        for element in value.elements:
            part = self.part(element.value)
            if not isinstance(element, cst.DictElement) or not isinstance(element.key, cst.SimpleString):
                return None
            if part in (None, "*"):
                return None
            assert part is not None
            found[str(element.key.evaluated_value)] = part
        return found or None

    def _masked_in(self, value: cst.BaseExpression) -> Unlabelled | None:
        """Where the labels of a dict for the model are -100."""
        if not isinstance(value, cst.Dict):
            return self.masked.get("[labels]")  # chosen of the batch
        found = None
        for element in value.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                if (masked := self._note_masked(element.value, str(element.key.evaluated_value))) is not None:
                    found = masked
        return found

    def _chosen(self, value: cst.BaseExpression) -> dict[str, str] | None:
        """`{k: batch[k].to(device) for k in ("input_ids", "labels")}`: keyword → key of the batch."""
        names = value.for_in.iter if isinstance(value, cst.DictComp) else None
        if not isinstance(value, cst.DictComp) or not isinstance(names, cst.Tuple | cst.List) or value.for_in.ifs:
            return None
        key, node = self.module.code(value.for_in.target), value.value
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in MOVES:
            node = node.func.value
        named = self.module.code(value.key) == key and value.for_in.inner_for_in is None
        if not named or not isinstance(node, cst.Subscript) or self.part(node.value) != "*":
            return None
        texts = [each.value for each in names.elements]
        if self.module.code(node).rpartition("[")[2] != f"{key}]" or not texts:
            return None
        keys = [str(text.evaluated_value) for text in texts if isinstance(text, cst.SimpleString)]
        return {name: self.keys.get(name, name) for name in keys} if len(keys) == len(texts) else None

    def _result(self, value: cst.BaseExpression) -> str | None:
        """`outputs` for the model's result, `loss` for the loss in it."""
        if isinstance(value, cst.Call) and self._is_model(value.func) and self._inputs(value):
            self.model, self.call = self.module.code(value.func), value
            return "outputs"
        if isinstance(value, cst.Call) and last_name(value.func) == "mean" and self.is_loss(value):
            return "loss"
        if (labels := self.own_loss.of(value)) is not None and self._takes(labels):
            return "loss"
        first = isinstance(value, cst.Subscript) and self.module.code(value).endswith(("[0]", '["loss"]', "['loss']"))
        named = isinstance(value, cst.Attribute) and value.attr.value == "loss"
        inner = value.value if isinstance(value, cst.Attribute | cst.Subscript) and (first or named) else None
        if isinstance(inner, cst.Name) and inner.value in self.outputs:
            return "loss"
        if inner is not None and self._result(inner) == "outputs":
            return "loss"
        return None

    def is_outputs(self, value: cst.BaseExpression) -> bool:
        """Whether an expression is what the model gave back, with a loss in it or without."""
        if isinstance(value, cst.Name):
            return value.value in self.outputs
        if not isinstance(value, cst.Call) or not self._is_model(value.func):
            return False
        return self._inputs(value) or (self.bare is not None and self.bare[0] is value)

    def _takes(self, labels: NextLabels) -> bool:
        """Whether the loop's own loss is the model's of a part of the batch, which is noted."""
        call, given = self.bare if self.bare is not None and self.call is None else (self.call, self.inputs)
        known = labels.part in ("labels", "input_ids", "*") or labels.part.isdigit()
        if call is None or not known:
            return False
        self.model, self.call, self.inputs = self.module.code(call.func), call, {**given, "labels": labels.part}
        self.unlabelled = labels.masked
        return True

    def _is_model(self, func: cst.BaseExpression) -> bool:
        """A name, or `self.model`."""
        if not isinstance(func, cst.Attribute) or self.module.code(func.value) != "self":
            return isinstance(func, cst.Name)
        found = self.module.meaning(func)
        return found is not None and all(binding.kind != "definition" for binding in found[1])

    def is_loss(self, node: cst.BaseExpression) -> bool:
        named = isinstance(node, cst.Name) and node.value in self.losses
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            return node.func.attr.value == "mean" and self.is_loss(node.func.value)  # of several GPUs, or of one number
        return named or self._result(node) == "loss"

    def means(self, line: cst.CSTNode) -> bool:
        """`loss = loss.mean()`: the mean over what several GPUs of one process found."""
        target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
        return isinstance(target, cst.Name) and isinstance(line, cst.Assign) and self._is_mean_of(line.value, target)

    def _is_mean_of(self, value: cst.BaseExpression, name: cst.Name) -> bool:
        return self.is_loss(value) and self.module.code(value) == f"{name.value}.mean()"

    def _inputs(self, call: cst.Call) -> bool:
        """Whether a call gives a model the batch; `inputs` notes which parts."""
        given: dict[str, str] = {}
        whole = False
        for index, argument in enumerate(call.args):
            if argument.star == "**":
                held = argument.value
                keys = self._dict(held) if isinstance(held, cst.Dict) else self.dicts.get(self.module.code(held))
                if keys is not None:
                    for key, of_batch in keys.items():
                        self._give(given, argument, key, of_batch)
                    inline = isinstance(held, cst.Dict)
                    masked = self._masked_in(held) if inline else self.masked.get(f"{self.module.code(held)}[labels]")
                    self.unlabelled = masked if "labels" in keys else self.unlabelled
                    continue
                if self.part(held) not in ("*", UNKNOWN):
                    return False
                whole = True
                continue
            name = argument.keyword.value if argument.keyword is not None else ("input_ids" if index == 0 else "")
            part = self.part(argument.value)
            if name in ("use_cache", "return_dict") or self.module.code(argument.value) == "None":
                continue
            if part is None or (part == "*" and name not in ("input_ids", "labels")):
                return False
            self._give(given, argument, name, part)
            masked = self._note_masked(argument.value, name)
            self.unlabelled = masked if name == "labels" else self.unlabelled
        if whole:
            given = {name: name for name in ("input_ids", "attention_mask", "labels")} | self.keys | given
            if "labels" in self.keys:
                self.unlabelled = self.masked.get("[labels]")
        if "labels" not in given:
            if given and self.own_loss.is_meant():
                self.bare = call, given
            elif given:
                said = "the model gets no labels, so the loss is computed by the loop itself"
                raise NotStandard(call, said, own_loss=True)
            return False
        if given["labels"] not in ("labels", "input_ids", "*") and not given["labels"].isdigit():
            raise NotStandard(call, f"the labels are {given['labels']!r} of the batch", own_loss=True)
        self.inputs = given
        return True

    def _note_masked(self, value: cst.BaseExpression, name: str) -> Unlabelled | None:
        """Where the labels are -100; nothing else may be."""
        masked = self.masked_at(value)
        if masked is not None and name != "labels":
            raise NotStandard(value, f"the model gets a part of the batch with -100 in it as {name}")
        return masked

    def _give(self, given: dict[str, str], argument: cst.Arg, name: str, part: str) -> None:
        if part == UNKNOWN:
            part = name
        named = part in (name, "*") or part.isdigit()  # by its key, its place in a tuple, or the batch itself
        if name not in MODEL_INPUTS or not (named or name == "labels"):
            said = f"the model gets {part!r} of the batch as {name or 'a second argument'}"
            raise NotStandard(argument, said, own_loss="labels" in part or name == "labels")
        given[name] = part

    def _is_squeezed(self, call: cst.Call) -> bool:
        """`.squeeze(1)`, `.squeeze()`: the axis that a tokenizer leaves in each row goes, and the rows stay."""
        values = [self.module.code(argument.value) for argument in call.args]
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == "squeeze" and values in ([], ["1"])

    def _moved(self, each: cst.BaseExpression) -> str | None:
        """`[part.to(device) for part in batch]`: all of a batch that is a tuple."""
        if not isinstance(each, cst.GeneratorExp | cst.ListComp) or each.for_in.inner_for_in is not None:
            return None
        held, text = self.module.code(each.for_in.target), self.module.code(each.elt)
        moved = text == held or text.startswith((f"{held}.to(", f"{held}.cuda("))
        whole = self.part(each.for_in.iter) == "*" and not each.for_in.ifs
        return "*" if moved and whole else None

    def part(self, value: cst.BaseExpression) -> str | None:
        """Which part of the batch an expression is: `*` for all of it, moved to a device or not."""
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            if value.func.attr.value in (*MOVES, "clone", "detach") or self._is_squeezed(value):
                return self.part(value.func.value)
            asked = value.args[0].value if len(value.args) == 1 and value.func.attr.value in ("pop", "get") else None
            if isinstance(asked, cst.SimpleString) and self.part(value.func.value) == "*":
                return self.keys.get(str(asked.evaluated_value), str(asked.evaluated_value))
        if isinstance(value, cst.Call) and TO_DEVICE.search(self.module.code(value.func)) and value.args:
            return self.part(value.args[0].value)
        if isinstance(value, cst.Name):
            return self.parts.get(value.value)
        if isinstance(value, cst.Subscript | cst.Attribute) and self.part(value.value) == UNKNOWN:
            return UNKNOWN
        if (made := filled(self.module, value)) is not None:
            kept = where(self.module, made[1], self.part, keeps=made[2]) is not None and self.masked_at(made[0]) is None
            return self.part(made[0]) if kept else None
        if isinstance(value, cst.Subscript) and self.part(value.value) == "*":
            text = self.module.code(value)
            key = text[text.index("[") + 1 : -1].strip("'\" ")
            return self.keys.get(key, key) if key.isidentifier() or key.isdigit() else None
        if isinstance(value, cst.Call) and self.module.code(value.func) in ("tuple", "list") and len(value.args) == 1:
            return self._moved(value.args[0].value)
        if isinstance(value, cst.ListComp):
            return self._moved(value)
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
