"""Names that a loop over batches fills and that the epoch, or what follows the loop, reads: how each is filled.

for batch in loader:
    ...
    running += loss.item()
print(running / len(loader))
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from ....source.module import Module
from ....source.scopes import inside, walk
from ...script.following.reaching import reaching
from ..besides.filled_names import filled
from ..statements.blocks import is_step, last_name, lines_of
from ..statements.counts import is_increment
from ..statements.facts import Loop
from .batch_losses import BatchLosses, LossNumber
from .facts import Carried


def carried_names(module: Module, loop: Loop, batches: cst.For, target: cst.BaseExpression) -> list[Carried] | None:
    """How the names are filled that are read outside of `batches`; None where one of them is filled in another way."""
    divisor = module.code(loop.accumulation) if loop.accumulation is not None else ""
    reader = BatchLosses(module, target, divisor)
    known: dict[str, Carried] = {}
    by_statement: dict[cst.CSTNode, str] = {}
    for line in reader.read(lines_of(batches.body)):
        for each in (line, *_of_step(loop, line)):
            found = _filled_by(module, loop, reader, each, within=each is not line)
            if found is not None:
                known[found.name], by_statement[each] = found, found.name
    carried: dict[str, Carried] = {}
    for node in inside(batches):
        for filled_name in filled(node):
            name = module.code(filled_name)
            uses = read_outside(module, filled_name, batches, loop.statement)
            if not uses:
                continue
            statement = next((each for each in (node, *module.ancestors(node)) if each in by_statement), None)
            if statement is not None and by_statement[statement] == name:
                if not known[name].plain and any(_takes_tensor(module, use) for use in uses):
                    return None
                carried[name] = known[name]
            elif (last := _last(module, loop, reader, name, uses)) is not None:
                carried[name] = last
            else:
                return None
    for bound in (node for node in walk(batches.target) if isinstance(node, cst.Name)):
        if not read_outside(module, bound, batches, loop.statement):
            continue
        if bound is not _number_of(module, batches):
            return None
        carried[bound.value] = Carried(bound.value, "number")
    return list(carried.values())


def _number_of(module: Module, batches: cst.For) -> cst.BaseExpression | None:
    """`step` of `for step, batch in enumerate(loader)`, which counts from 0."""
    node = batches.iter
    while isinstance(node, cst.Call) and last_name(node.func) == "tqdm" and node.args:
        node = node.args[0].value
    counts = isinstance(node, cst.Call) and module.code(node.func) == "enumerate" and len(node.args) == 1
    return batches.target.elements[0].value if counts and isinstance(batches.target, cst.Tuple) else None


def _of_step(loop: Loop, line: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The lines of the block that the optimizer's step stands in, or that runs with each: `if accelerator.sync_...`."""
    if not isinstance(line, cst.If) or line.orelse is not None:
        return ()
    synced = isinstance(line.test, cst.Attribute) and line.test.attr.value == "sync_gradients"
    steps = any(is_step(node) for node in walk(line.body))
    return lines_of(line.body) if synced or (steps and loop.accumulation is not None) else ()


def _filled_by(module: Module, loop: Loop, reader: BatchLosses, line: cst.CSTNode, *, within: bool) -> Carried | None:
    """`running += loss.item()`, `losses.append(loss.item())`, `count += 1`; `within`: at each step, not each batch."""
    accumulates = loop.accumulation is not None or loop.accumulates
    if isinstance(line, cst.AugAssign) and isinstance(line.target, cst.Name):
        name = line.target.value
        if is_increment(line):
            by_step = within or not accumulates
            return Carried(name, "steps" if by_step else "batches", line)
        found = reader.number(line.value)
        if isinstance(line.operator, cst.AddAssign) and found is not None and not within:
            return Carried(name, "sum" if found.kind == "whole" else "shares", line, plain=found.plain)
    call = line.value if isinstance(line, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and last_name(call.func) == "append":
        found = reader.number(call.args[0].value) if len(call.args) == 1 else None
        if isinstance(call.func.value, cst.Name) and found is not None and found.plain and not accumulates:
            return Carried(call.func.value.value, "list", line)
    return None


def _last(module: Module, loop: Loop, reader: BatchLosses, name: str, uses: Sequence[cst.CSTNode]) -> Carried | None:
    """The last batch's loss, where it is read as a number alone."""
    if loop.accumulation is not None or loop.accumulates:
        return None
    found, tensor = reader.numbers.get(name), reader.forward.losses.get(name)
    if found is None and tensor is not None:
        found = LossNumber(tensor, "whole", plain=False)
    if found is None or not all(found.plain or _asks_number(module, use) for use in uses):
        return None
    return Carried(name, "last")


def _takes_tensor(module: Module, use: cst.CSTNode) -> bool:
    """`running.cpu()`: what a number hasn't."""
    parent = module.parents[use]
    return isinstance(parent, cst.Attribute) and parent.attr.value != "item"


def _asks_number(module: Module, use: cst.CSTNode) -> bool:
    """`loss.item()`, or `loss` in a text."""
    parent = module.parents[use]
    item = isinstance(parent, cst.Attribute) and parent.attr.value == "item"
    return item or isinstance(parent, cst.FormattedStringExpression)


def read_outside(
    module: Module, target: cst.BaseExpression, batches: cst.For, loop: cst.CSTNode, *gone: cst.For
) -> list[cst.CSTNode]:
    """Where what the batches leave in a name (or an attribute) is read outside of them, and of what is `gone`."""
    if not isinstance(target, cst.Name):
        return _attribute_reads(module, target, batches)
    meant = module.scope(target).lookup(target.value)
    if meant is None:
        return []
    uses: list[cst.CSTNode] = [*module.references(target.value, meant[0])]
    uses += [each.target for each in _increments(module, target.value, meant[0])]
    found: list[cst.CSTNode] = []
    for use in uses:
        if {batches, *gone} & set(module.ancestors(use)) or _is_of_a_loop(module, use, target.value):
            continue
        before = module.span(use)[1] <= module.span(loop)[0] and module.scope(use) is module.scope(loop)
        if before and not module.loops(loop):
            continue
        assert isinstance(use, cst.BaseExpression)
        held = reaching(module, use)
        mutated = not any(batches in module.ancestors(binding.node) for binding in meant[1])
        if mutated or any(batches in module.ancestors(binding.node) for binding in held):
            found.append(use)
    return found


def _is_of_a_loop(module: Module, use: cst.CSTNode, name: str) -> bool:
    """Whether a loop around a use gives the name its values."""
    loops = [node for node in module.ancestors(use) if isinstance(node, cst.For)]
    return any(isinstance(each, cst.Name) and each.value == name for loop in loops for each in walk(loop.target))


def _increments(module: Module, name: str, scope: object) -> list[cst.AugAssign]:
    """`running /= n` reads what it changes."""
    found = module.memory.get("changed names")
    if found is None:
        found = module.memory["changed names"] = [node for node in module.parents if isinstance(node, cst.AugAssign)]
    return [
        node
        for node in found
        if isinstance(node.target, cst.Name)
        and node.target.value == name
        and (meant := module.scope(node).lookup(name)) is not None
        and meant[0] is scope
    ]


def _attribute_reads(module: Module, target: cst.BaseExpression, batches: cst.For) -> list[cst.CSTNode]:
    if not isinstance(target, cst.Attribute):
        return [target]
    named = module.attributes_named(target.attr.value)
    code = module.code(target)
    return [use for use in named if module.code(use) == code and batches not in module.ancestors(use)
            and not isinstance(module.parents[use], cst.AssignTarget)]  # fmt: skip
