"""Names that a training loop fills and that the script reads behind it: the port's loop is gone, and they stay empty.

losses = []
for batch in loader:
    ...
    losses.append(loss.item())
plt.plot(losses)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from ....source.calls import class_of
from ....source.module import Module
from ....source.scopes import Scope, inside, owner_of
from ...script.following.reaching import reaching
from ..statements.facts import Loop

FILLS = ("append", "extend", "insert", "add", "update", "setdefault")


def read_behind(module: Module, loop: Loop) -> Iterator[tuple[cst.CSTNode, str, cst.CSTNode]]:
    """Where a name is read for the first time that the loop fills, its code, and where it is filled."""
    parts = {loop.model, loop.optimizer, loop.scheduler}
    gone = [loop.statement, *([loop.function] if loop.function is not None else [])]
    found: dict[str, cst.CSTNode] = {}
    for node in inside(loop.statement):
        for target in filled(node):
            code = module.code(target)
            if code not in parts and code not in found and isinstance(target, cst.Name | cst.Attribute):
                use = _first_use(module, target, gone)
                if use is not None:
                    found[code] = use
                    yield use, code, node


def filled(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What a statement fills: `losses` of `losses.append(x)`, `self.history` of `self.history["loss"].append(x)`."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in FILLS:
            return [_whole(node.func.value)]
        return []
    if isinstance(node, cst.AugAssign | cst.AnnAssign):
        return [_whole(node.target)]
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else []
    parts = [
        element.value
        for target in targets
        for element in (target.elements if isinstance(target, cst.Tuple | cst.List) else [cst.Element(target)])
    ]
    return [_whole(part) for part in parts]


def _whole(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def _first_use(module: Module, target: cst.Name | cst.Attribute, gone: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
    """Where a name, or an attribute of `self`, is read behind the loop as the loop has left it."""
    if isinstance(target, cst.Attribute):
        owner = owner_of(target, module.scope(target))
        reads = module.references(module.code(target), owner) if owner is not None else ()
        objects = [use for use in module.attributes_named(target.attr.value) if _is_object(module, use, owner)]
        uses = sorted([*reads, *objects], key=lambda use: module.span(use)[0])
        return next((use for use in uses if not _within(module, use, gone)), None)
    meant = module.scope(target).lookup(target.value)
    if meant is None or not any(not _within(module, binding.node, gone) for binding in meant[1]):
        return None  # a name of the loop alone is missed in the port
    end = module.span(gone[0])[1]
    for use in module.references(target.value, meant[0]):
        behind = module.span(use)[0] >= end or module.scope(use) is not module.scope(target)
        if behind and not _within(module, use, gone):
            held = reaching(module, use)
            before = [binding for binding in held if module.span(binding.node)[0] < end]
            if before:
                return use
    return None


def _within(module: Module, node: cst.CSTNode, gone: Sequence[cst.CSTNode]) -> bool:
    return any(parent in gone for parent in module.ancestors(node))


def _is_object(module: Module, use: cst.Attribute, owner: Scope | None) -> bool:
    """Whether an attribute is read of an object of a class, by its name: `tuner.losses` behind `tuner = Tuner()`."""
    made = class_of(module, use.value, instance=True)
    return made is not None and made is owner and not module.is_set(use)
