"""Models that the script keeps in a dictionary or a list, from which a trainer gets one of them.

self.loaded[name] = AutoModelForCausalLM.from_pretrained(path)
...
model = self.loaded[name]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ...source.module import Module
from ...source.scopes import Binding
from ..script.fill_from_tables import bindings_of
from ..script.flow import binding_origins, is_same, origins

LOADS = re.compile(r"(?:transformers|peft|unsloth)\.\w*(?:Model|ForCausalLM|ConditionalGeneration)\w*\.from_pretrained")
GIVES_BACK = ("items", "values", "enumerate", "list", "tuple", "sorted", "reversed", "zip")
ADDS = ("append", "insert", "setdefault")
DEEPEST = 4  # names that lead to one another


def store_of(module: Module, node: cst.BaseExpression | None, depth: int = 0) -> str:
    """The code of the container that `node` is taken from, where a model that a library loads is put into it."""
    if node is None or depth > DEEPEST:
        return ""
    match node:
        case cst.Subscript():
            return module.code(node.value) if _holds_model(module, node.value) else ""
        case cst.IfExp():
            sides: tuple[cst.BaseExpression, ...] = (node.body, node.orelse)
        case cst.BooleanOperation():
            sides = (node.left, node.right)
        case cst.Name() | cst.Attribute():
            return next((found for item in bindings_of(module, node) if (found := _of(module, item, depth))), "")
        case _:
            return ""
    return next((found for side in sides if (found := store_of(module, side, depth + 1))), "")


def _of(module: Module, binding: Binding, depth: int) -> str:
    if binding.kind == "assign" and binding.index is None:
        return store_of(module, binding.value, depth + 1)
    loop = binding.node if isinstance(binding.node, cst.For | cst.CompFor) else None
    gone_through = loop.iter if loop is not None else None
    while isinstance(gone_through, cst.Call):
        called = gone_through.func
        name = called.attr.value if isinstance(called, cst.Attribute) else module.code(called)
        if name not in GIVES_BACK:
            return ""
        inner = gone_through.args[0].value if gone_through.args else None
        gone_through = called.value if isinstance(called, cst.Attribute) else inner
    return module.code(gone_through) if gone_through is not None and _holds_model(module, gone_through) else ""


def _holds_model(module: Module, container: cst.BaseExpression) -> bool:
    return any(_is_loaded(module, value) for value in _put_in(module, container))


def _put_in(module: Module, container: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the script puts into a dictionary or a list, where it is made and later."""
    for binding in bindings_of(module, container):
        if isinstance(binding.value, cst.Dict):
            yield from (item.value for item in binding.value.elements if isinstance(item, cst.DictElement))
        elif isinstance(binding.value, cst.List | cst.Tuple):
            yield from (item.value for item in binding.value.elements)
        elif isinstance(binding.value, cst.DictComp):
            yield binding.value.value
        elif isinstance(binding.value, cst.ListComp):
            yield binding.value.elt
    for node in module.parents:
        if isinstance(node, cst.Assign):
            target = node.targets[0].target
            if isinstance(target, cst.Subscript) and is_same(module, target.value, container):
                yield node.value
    for call in module.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ADDS and call.args:
            if is_same(module, call.func.value, container):
                yield call.args[-1].value


def _is_loaded(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a value may be a model that a library loads."""
    made = [*origins(module, value)]
    for binding in bindings_of(module, value):
        made += binding_origins(module, binding)
    names = (module.qualified(each.func) for each in made if isinstance(each, cst.Call))
    return any(name is not None and LOADS.fullmatch(name) for name in names)
