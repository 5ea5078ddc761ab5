"""A batch that a loop moves to the device, whole or in part.

batch = {k: v.to(device) for k, v in batch.items() if k != "labels"}
inputs = {k: batch[k].cuda() for k in ("input_ids", "labels")}
ids, mask = [part.to(device) for part in batch]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from ....source.module import Module
from ....source.read_value import read_value
from .blocks import last_name

PartOf = Callable[[cst.BaseExpression], str | None]
WHOLE = ("input_ids", "attention_mask", "labels")  # what `model(**batch)` gives

# Functions that put a batch on a device: accelerate's send_to_device, and those that others write.
TO_DEVICE = re.compile(r"(?:^|[._])to_(?:the_)?(?:device|gpu|cuda)$")

SAME = ("to", "cuda", "long", "clone", "detach")  # methods of a tensor behind which it has the same numbers
ASK_TYPE = ("isinstance", "is_tensor", "hasattr")  # conditions that leave out what is no tensor


def unmoved(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor or batch that is moved to a device, which has the same numbers there."""
    while isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and (node.func.attr.value in SAME or _is_squeezed(module, node)):
            node = node.func.value
        elif TO_DEVICE.search(module.code(node.func)) and node.args:
            node = node.args[0].value
        else:
            break
    return node


def _is_squeezed(module: Module, call: cst.Call) -> bool:
    """`.squeeze(1)`, `.squeeze()`: the axis that a tokenizer leaves in each row goes, and the rows stay."""
    values = [module.code(argument.value) for argument in call.args]
    return last_name(call.func) == "squeeze" and values in ([], ["1"])


def _is_moved(module: Module, value: cst.BaseExpression, name: str) -> bool:
    """Whether an expression is what `name` holds, moved to a device or not."""
    if isinstance(value, cst.IfExp):  # v.to(device) if torch.is_tensor(v) else v
        return _is_moved(module, value.body, name) and _is_moved(module, value.orelse, name)
    inner = unmoved(module, value)
    return isinstance(inner, cst.Name) and inner.value == name


def moves_all(module: Module, node: cst.BaseExpression, part: PartOf) -> bool:
    """Whether all of a batch is moved: `[part.to(device) for part in batch]` of a tuple, or all items of a dict."""
    if isinstance(node, cst.DictComp):
        return _of_items(module, node, part) and left_out(module, node) == set()
    if not isinstance(node, cst.GeneratorExp | cst.ListComp) or node.for_in.inner_for_in is not None:
        return False
    moved = _is_moved(module, node.elt, module.code(node.for_in.target))
    return moved and part(node.for_in.iter) == "*" and not node.for_in.ifs


def chosen(module: Module, value: cst.DictComp, part: PartOf) -> list[str] | None:
    """The keys of the batch that a dict has by the same names: those that are named, or that a condition leaves."""
    if value.for_in.inner_for_in is not None:
        return None
    if _of_items(module, value, part):
        left = left_out(module, value)
        return [name for name in WHOLE if name not in left] if left is not None else None
    names, key, node = value.for_in.iter, module.code(value.for_in.target), unmoved(module, value.value)
    if not isinstance(names, cst.Tuple | cst.List) or value.for_in.ifs or module.code(value.key) != key:
        return None
    if not isinstance(node, cst.Subscript) or part(node.value) != "*" or not module.code(node).endswith(f"[{key}]"):
        return None
    texts = [each.value for each in names.elements]
    keys = [str(text.evaluated_value) for text in texts if isinstance(text, cst.SimpleString)]
    return keys if keys and len(keys) == len(texts) else None


def _of_items(module: Module, value: cst.DictComp, part: PartOf) -> bool:
    """`{k: v.to(device) for k, v in batch.items()}`, with conditions or without."""
    items = value.for_in.iter.func if isinstance(value.for_in.iter, cst.Call) else None
    if not isinstance(items, cst.Attribute) or items.attr.value != "items" or part(items.value) != "*":
        return False
    names = _key_and_value(module, value)
    same = len(names) == 2 and module.code(value.key) == names[0] and value.for_in.inner_for_in is None
    return same and _is_moved(module, value.value, names[1])


def _key_and_value(module: Module, value: cst.DictComp) -> list[str]:
    return [name.strip() for name in module.code(value.for_in.target).strip("()").split(",")]


def left_out(module: Module, value: cst.DictComp) -> set[str] | None:
    """What conditions leave out of the model's inputs: `if k != "labels"`; None where that can't be told."""
    key, left = _key_and_value(module, value)[0], set[str]()
    for test in _all_of([each.test for each in value.for_in.ifs]):
        if isinstance(test, cst.Call) and last_name(test.func) in ASK_TYPE:
            continue
        found = _without(module, test, key)
        if found is None:
            return None
        left |= found
    return left


def _without(module: Module, test: cst.BaseExpression, key: str) -> set[str] | None:
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or module.code(test.left) != key:
        return None
    operator, texts = test.comparisons[0].operator, read_value(module, test.comparisons[0].comparator)
    if not texts.known:
        return None
    named = {texts.literal} if isinstance(texts.literal, str) else set(_texts(texts.literal))
    if isinstance(operator, cst.NotEqual | cst.NotIn):
        return named & set(WHOLE)
    return set(WHOLE) - named if isinstance(operator, cst.In | cst.Equal) else None


def _all_of(tests: list[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
    """Conditions one by one, those that `and` joins, too."""
    for test in tests:
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            yield from _all_of([test.left, test.right])
        else:
            yield test


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list | tuple | set | frozenset):
        yield from (each for each in value if isinstance(each, str))
