"""The batch of a training loop: which names hold all of it or a part, what the loop has put in or taken out, and the
labels that it makes."""

from __future__ import annotations

import libcst as cst

from ....source.module import Module
from ....source.read_value import read_value
from ....source.scopes import walk
from .made_labels import Unlabelled, filled, is_copy, is_ignored, where
from .moved_batch import WHOLE, chosen, moves_all, unmoved
from .not_standard import NotStandard

# Keywords of a causal language model's forward pass that a batch may give it.
MODEL_INPUTS = ("input_ids", "attention_mask", "labels", "position_ids", "use_cache", "return_dict")

UNKNOWN = "?"  # a part of the batch of which it is said already that it can't be told which


class BatchParts:
    """What is known of the names of a loop's body, statement by statement.

    `by_name`: name → key of the batch that it holds ("*": the whole).
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.by_name: dict[str, str] = {}
        self.dicts: dict[str, dict[str, str]] = {}  # name → what a dict of parts of the batch gives the model
        self.own: set[str] = set()  # names of tensors that the loop may change
        self.keys: dict[str, str] = {}  # key → key of the batch of which the loop has put something there
        self.taken: set[str] = set()  # keys that the loop has taken out
        self.masked: dict[str, Unlabelled] = {}  # name, or [key], → where it is -100

    def copy(self) -> BatchParts:
        """The same, which may learn other things from here on."""
        found = BatchParts(self.module)
        found.by_name, found.dicts, found.own = dict(self.by_name), dict(self.dicts), set(self.own)
        found.keys, found.taken, found.masked = dict(self.keys), set(self.taken), dict(self.masked)
        return found

    def holds(self, name: str, value: cst.BaseExpression) -> bool:
        """Whether `name = value` holds a part of the batch, or a dict of some, which is remembered."""
        part = self.part(value)
        if part is not None:
            self.hold(name, value, part)
            return True
        keys = self.dict_of(value)
        if keys is None:
            return False
        self._forget(name)
        self.dicts[name] = keys
        masked = self.masked_in(value)
        self.masked |= {f"{name}[labels]": masked} if masked is not None else {}
        return True

    def hold(self, name: str, value: cst.BaseExpression, part: str) -> None:
        """`name` holds a part of the batch, with what is known of it."""
        masked, is_own = self.masked_at(value), is_copy(value)
        self._forget(name)
        if name.startswith("["):
            self.keys[name[1:-1]] = part
            self.taken.discard(name[1:-1])
        else:
            self.by_name[name] = part
        self.own |= {name} if is_own else set()
        self.masked |= {name: masked} if masked is not None else {}

    def _forget(self, name: str) -> None:
        self.by_name.pop(name, None)
        self.dicts.pop(name, None)
        self.own.discard(name)
        self.masked.pop(name, None)
        self.masked.pop(f"{name}[labels]", None)

    def unknown(self, target: cst.BaseExpression) -> None:
        """Names that hold some part of a batch: that is said already, and what is made of them isn't any more."""
        for name in walk(target):
            if isinstance(name, cst.Name):
                self.by_name.setdefault(name.value, UNKNOWN)

    def take_apart(self, target: cst.Tuple | cst.List) -> bool:
        """`ids, mask, labels = batch`: each name holds the part of its place. Whether that is all that it does."""
        if not all(isinstance(each, cst.Element) and isinstance(each.value, cst.Name) for each in target.elements):
            self.unknown(target)
            return False
        for place, each in enumerate(target.elements):
            assert isinstance(each.value, cst.Name)
            self.by_name[each.value.value] = str(place)
        return True

    def each_holds(self, target: cst.Tuple, value: cst.Tuple) -> bool:
        """Whether `ids, labels = ids.to(x), labels.to(x)` holds parts of the batch, which is remembered."""
        pairs = [(held.value, of.value) for held, of in zip(target.elements, value.elements, strict=False)]
        parts = [self.part(of) for _, of in pairs]
        if not pairs or not all(parts) or len(target.elements) != len(value.elements):
            return False
        for (held, of), part in zip(pairs, parts, strict=True):
            if isinstance(held, cst.Name) and part is not None:
                self.hold(held.value, of, part)
        return True

    def makes_labels(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Whether `batch["labels"] = ids.clone()` or `labels[mask == 0] = -100` makes the labels, which is noted."""
        if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
            return False
        part, key = self.part(value), self._key(target)
        if key == "labels" and part not in (None, "*", UNKNOWN):
            assert part is not None
            self.hold(f"[{key}]", value, part)
            return True
        index = target.slice[0].slice
        return isinstance(index, cst.Index) and self._masks(target.value, index.value, value)

    def fills(self, call: cst.Call) -> bool:
        """Whether `labels.masked_fill_(mask == 0, -100)` makes the labels, which is noted."""
        values = [argument.value for argument in call.args if argument.keyword is None]
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "masked_fill_":
            return False
        return len(values) == len(call.args) == 2 and self._masks(call.func.value, values[0], values[1])

    def _masks(self, tensor: cst.BaseExpression, test: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        held = self._held(tensor)
        if held not in self.own or held in self.masked or not is_ignored(self.module, value):
            return False
        asked = where(self.module, test, self.part)
        if asked is None:
            return False
        self.masked[held] = asked
        return True

    def take_out(self, line: cst.CSTNode) -> bool:
        """Whether a statement does no more than to take keys out of the batch, which is noted of any that does."""
        found = [node for node in walk(line) if isinstance(node, cst.Call) and self._pops(node)]
        for call in found:
            asked = read_value(self.module, call.args[0].value)
            if not asked.known:
                code = self.module.code(call)
                raise NotStandard(call, f"what `{code}` takes out of the batch is known to the run alone")
            self.taken.add(str(asked.literal))
        if not isinstance(line, cst.Del):
            return isinstance(line, cst.Expr) and line.value in found
        targets = [each.value for each in line.target.elements] if isinstance(line.target, cst.Tuple) else [line.target]
        keys = [self._key(node) for node in targets]
        self.taken |= {key for key in keys if key is not None}
        return all(keys)

    def _pops(self, call: cst.Call) -> bool:
        popped = isinstance(call.func, cst.Attribute) and call.func.attr.value == "pop" and bool(call.args)
        return popped and isinstance(call.func, cst.Attribute) and self.part(call.func.value) == "*"

    def whole(self) -> dict[str, str]:
        """What `model(**batch)` gives: keyword → key of the batch."""
        return {name: name for name in WHOLE if name not in self.taken} | self.keys

    def masked_at(self, value: cst.BaseExpression) -> Unlabelled | None:
        """Where a part of the batch is -100 by what the loop did."""
        if (made := filled(self.module, value)) is not None:
            return where(self.module, made[1], self.part, keeps=made[2])
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and self.part(value) is not None:
            return self.masked_at(value.func.value)
        return self.masked.get(self._held(value))

    def masked_in(self, value: cst.BaseExpression) -> Unlabelled | None:
        """Where the labels of a dict for the model are -100; nothing else may be."""
        if isinstance(value, cst.Name):
            return self.masked.get(f"{value.value}[labels]")
        if not isinstance(value, cst.Dict):
            return self.masked.get("[labels]")  # chosen of the batch
        found = None
        for element in value.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                if (masked := self.only_of_labels(element.value, str(element.key.evaluated_value))) is not None:
                    found = masked
        return found

    def only_of_labels(self, value: cst.BaseExpression, name: str) -> Unlabelled | None:
        """Where what the model gets as `name` is -100: an obstacle unless it is the labels."""
        masked = self.masked_at(value)
        if masked is not None and name != "labels":
            raise NotStandard(value, f"the model gets a part of the batch with -100 in it as {name}")
        return masked

    def _key(self, node: cst.BaseExpression) -> str | None:
        """`labels` of `batch["labels"]`."""
        if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Name):
            return None
        if self.by_name.get(node.value.value) != "*":
            return None
        key = self._key_asked(node)
        return key if key.isidentifier() or key.isdigit() else None

    def _key_asked(self, node: cst.Subscript) -> str:
        text = self.module.code(node)
        return text[text.index("[") + 1 : -1].strip("'\" ")

    def _held(self, node: cst.BaseExpression) -> str:
        """By what a part of the batch is held: a name, or a key of the batch."""
        key = self._key(node)
        return node.value if isinstance(node, cst.Name) else f"[{key}]" if key is not None else ""

    def part(self, value: cst.BaseExpression) -> str | None:
        """Which part of the batch an expression is: `*` for all of it, moved to a device or not."""
        if isinstance(value, cst.Call):
            return self._part_called(value)
        if isinstance(value, cst.Name):
            return self.by_name.get(value.value)
        if isinstance(value, cst.Subscript | cst.Attribute) and self.part(value.value) == UNKNOWN:
            return UNKNOWN
        if isinstance(value, cst.Subscript):
            key = self._key_asked(value)
            if isinstance(value.value, cst.Name) and (keys := self.dicts.get(value.value.value)) is not None:
                return keys.get(key)
            known = self.part(value.value) == "*" and (key.isidentifier() or key.isdigit())
            return self.keys.get(key, key) if known else None
        if isinstance(value, cst.ListComp | cst.DictComp) and moves_all(self.module, value, self.part):
            return "*"
        return None

    def _part_called(self, call: cst.Call) -> str | None:
        """Which part of the batch a call gives back."""
        if (inner := unmoved(self.module, call)) is not call:
            return self.part(inner)
        if isinstance(call.func, cst.Attribute):
            asked = call.args[0].value if len(call.args) == 1 and call.func.attr.value in ("pop", "get") else None
            if isinstance(asked, cst.SimpleString) and self.part(call.func.value) == "*":
                return self.keys.get(str(asked.evaluated_value), str(asked.evaluated_value))
        if (made := filled(self.module, call)) is not None:
            kept = where(self.module, made[1], self.part, keeps=made[2]) is not None and self.masked_at(made[0]) is None
            return self.part(made[0]) if kept else None
        if self.module.code(call.func) in ("tuple", "list") and len(call.args) == 1:
            return "*" if moves_all(self.module, call.args[0].value, self.part) else None
        return None

    def dict_of(self, value: cst.BaseExpression) -> dict[str, str] | None:
        """The parts of the batch that a dict gives the model: keyword → key of the batch."""
        if isinstance(value, cst.Dict):
            return self._written(value)
        if isinstance(value, cst.Name):
            return self.dicts.get(value.value)
        keys = chosen(self.module, value, self.part) if isinstance(value, cst.DictComp) else None
        return {name: self.keys.get(name, name) for name in keys if name not in self.taken} if keys else None

    def _written(self, value: cst.Dict) -> dict[str, str] | None:
        """`{"input_ids": batch["input_ids"].to(device), ...}`."""
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
