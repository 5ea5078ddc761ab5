"""What is bound again between the place where an object was made and those that use it.

config = SFTConfig("out", learning_rate=lr)
lr = 5e-5                                     config has the other one
trainer = SFTTrainer(model, args=config)
config = SFTConfig("out/second")
print(config.learning_rate)                   of this one
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ....source.calls import function_around
from ....source.module import Module
from ....source.scopes import inside
from ..fill_from_tables import bindings_of
from ..flow import is_itself
from .reaching import reaching

SETS = r"[ \t]*(?://|\*\*|[-+*/%|&])?=(?!=)"


def holds(module: Module, name: cst.BaseExpression, made: cst.CSTNode) -> bool | None:
    """Whether a variable holds what the call `made` gave it where it is read; None where it may hold another."""
    bindings = bindings_of(module, name)
    own = [binding for binding in bindings if _spans(module, binding.node, made)]
    if not own or len(bindings) == 1:
        return True
    found = reaching(module, name)
    if not any(binding in own for binding in found):
        return False
    return True if len(found) == 1 else None


def is_set_between(module: Module, value: cst.CSTNode | None, use: cst.CSTNode) -> bool:
    """Whether what the expression `value` reads may be another before `use` is come to: its names are bound again, an
    attribute or an item is set."""
    return any(True for _ in set_between(module, value, use))


def set_between(module: Module, value: cst.CSTNode | None, use: cst.CSTNode) -> Iterator[str]:
    """What of an expression may be another before `use` is come to: names that are bound again, but for those that
    are given back what they hold, and attributes and items that are set."""
    if value is None:
        return
    for name in module.names_read(value):
        for binding in bindings_of(module, name):
            if _is_between(module, binding.node, value, use) and not is_itself(module, binding, name):
                yield name.value
    yield from _changed_between(module, value, use)


def _spans(module: Module, node: cst.CSTNode, inner: cst.CSTNode) -> bool:
    (start, end), (first, last) = module.span(node), module.span(inner)
    return start <= first and last <= end


def _is_between(module: Module, node: cst.CSTNode, value: cst.CSTNode, use: cst.CSTNode) -> bool:
    """Whether a statement of the function of `value` runs behind it and before `use`, or again with it in a loop."""
    function = function_around(module, value)
    if isinstance(node, cst.CompFor) or function_around(module, node) is not function:
        return False
    repeated = module.loops(node) | ({node} if isinstance(node, cst.For) else frozenset())
    if repeated & (module.loops(use) - module.loops(value)):
        return True
    start = module.span(node)[0]
    return start >= module.span(value)[1] and (
        function_around(module, use) is not function or start < module.span(use)[0]
    )


def _changed_between(module: Module, value: cst.CSTNode, use: cst.CSTNode) -> Iterator[str]:
    read = {module.code(node): None for node in inside(value) if isinstance(node, cst.Attribute | cst.Subscript)}
    same = function_around(module, use) is function_around(module, value)
    between = module.text[module.span(value)[1] : module.span(use)[0] if same else None]
    yield from (code for code in read if re.search(rf"(?m)^[ \t]*{re.escape(code)}{SETS}", between))
