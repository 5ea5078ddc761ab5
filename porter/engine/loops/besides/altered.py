"""What a loop changes by hand of what is trained: through the model's parameters, and through the optimizer's groups.

for group in optimizer.param_groups:
    group["betas"] = (0.5, 0.9)
for parameter in model.parameters():
    parameter.clamp_(-1, 1)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from ....source.held_values import CHANGES
from ....source.module import Module
from ....source.read_value import read_value
from ....source.scopes import inside, walk
from ..statements.batch_parts import MODEL_INPUTS

PARTS = frozenset("parameters named_parameters param_groups buffers named_buffers modules named_modules state".split())


def altered(
    module: Module, line: cst.CSTNode, trained: Collection[str], held: Collection[str] = ()
) -> Iterator[cst.CSTNode]:
    """What changes a parameter or a group of what is trained in place, by a name that holds it: one of `held`, or of
    the line itself."""
    names = {*held, *_each_of(module, line, trained), *one_of(line, trained)}
    if names:
        yield from (node for node in inside(line) if changed_by(module, node) in names)


def one_of(line: cst.CSTNode, trained: Collection[str]) -> set[str]:
    """Names of a part of what is trained: `group = optimizer.param_groups[0]`."""
    made = [node for node in walk(line) if isinstance(node, cst.Assign)]
    parts = [node for node in made if isinstance(node.value, cst.Attribute | cst.Subscript)]
    named = [node for node in parts if root_of(node.value) in trained]
    return {each.target.value for node in named for each in node.targets if isinstance(each.target, cst.Name)}


def _each_of(module: Module, line: cst.CSTNode, trained: Collection[str]) -> set[str]:
    """Names of parameters and groups, one after another."""
    found: set[str] = set()
    for node in walk(line):
        if isinstance(node, cst.For | cst.CompFor):
            for target, source in _pairs(node.target, node.iter):
                if any(_is_part(module, part, trained) for part in walk(source)):
                    found |= {name.value for name in walk(target) if isinstance(name, cst.Name)}
    return found


def _pairs(
    target: cst.BaseExpression, source: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Names and what they go over: of `for p, q in zip(a, b)` one by one."""
    zipped = isinstance(source, cst.Call) and isinstance(source.func, cst.Name) and source.func.value == "zip"
    if zipped and isinstance(source, cst.Call) and isinstance(target, cst.Tuple):
        pairs = zip(target.elements, source.args, strict=False)
        yield from ((one.value, other.value) for one, other in pairs)
    else:
        yield target, source


def _is_part(module: Module, node: cst.CSTNode, trained: Collection[str]) -> bool:
    if not isinstance(node, cst.Attribute) or node.attr.value not in PARTS:
        return False
    return module.code(node.value) in trained or root_of(node.value) in trained


def root_of(node: cst.BaseExpression) -> str:
    """`batch` of `batch["labels"].data[0]`; empty where it isn't a name's."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def changed_by(module: Module, node: cst.CSTNode) -> str:
    """The name of what a call or an assignment changes in place: `labels` of `labels.zero_()` and `labels[0] = 1`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        last, first = node.func.attr.value, node.args[0].value if node.args else None
        key = read_value(module, first) if last == "pop" and first is not None else None
        if key is not None and key.known and key.literal not in MODEL_INPUTS:
            return ""
        in_place = last.endswith("_") and not last.endswith("__")
        if in_place and first is not None and module.qualified(node.func) is not None:
            return root_of(first)  # nn.init.zeros_(logits)
        return root_of(node.func.value) if in_place or last in CHANGES else ""
    if not isinstance(node, cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Del):
        return ""
    parts = [target for target in targets(node) if isinstance(target, cst.Subscript | cst.Attribute)]
    return next(map(root_of, parts), "")


def targets(node: cst.Assign | cst.AugAssign | cst.AnnAssign | cst.Del) -> list[cst.BaseExpression]:
    """What a statement assigns to, or takes away."""
    found = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return [
        element.value
        for each in found
        for element in (each.elements if isinstance(each, cst.Tuple | cst.List) else [cst.Element(each)])
    ]
