"""Types and switches that hang on a GPU through something else: an attribute, a parameter, a function, a branch.

    self.device = "cuda" if torch.cuda.is_available() else "cpu"
    self.dtype = torch.bfloat16 if self.device == "cuda" else torch.float32

The device stays a question where torch is told it; what the training takes is what the GPU run had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import asks_for_gpu, bare, constants, inside, is_elif, keep_branch

from ._gpu_questions import GUARD, HALF, REASON, has_names_of_gpu, known_value, on_gpu, places, small
from ._gpu_settings import PRECISION, RULE, is_precision, is_setting, names_device

Branch = tuple[cst.BaseExpression | None, cst.BaseSuite]  # its condition, None of an `else`
OPTION = re.compile(r"""[\w.]*add_argument\(\s*(?:["']-\w["'],\s*)?["']--([\w-]+)["']""")
SWITCHES = (cst.Call, cst.Comparison, cst.UnaryOperation, cst.BooleanOperation)
SAME = "types that every branch gives"  # of the module's memory: names that hang on no GPU any more


def settle_choices(porting: Porting) -> None:
    """Decide every choice of a precision that a GPU settles and no other rule has taken."""
    module = porting.module
    for both in [node for node in module.parents if isinstance(node, cst.BooleanOperation)]:
        if not isinstance(module.parents[both], cst.BooleanOperation):
            _settle_question(porting, both)
    for choice in [node for node in module.parents if isinstance(node, cst.IfExp)]:
        _settle_choice(porting, choice)
    for holder in reversed([node for node in module.parents if isinstance(node, cst.If)]):
        if not is_elif(module, holder):
            _settle_branches(porting, holder)
    for switch in [node for node in module.parents if isinstance(node, SWITCHES)]:
        _settle_switch(porting, switch)


def _open(porting: Porting, node: cst.CSTNode) -> bool:
    return not porting.covered(porting.module.span(node)[0])


def _settle_question(porting: Porting, node: cst.BooleanOperation) -> None:
    """`available() and is_bf16_supported()`: a question that only a precision can hang on."""
    module = porting.module
    if not _open(porting, node) or not isinstance(known := known_value(porting, node), bool):
        return
    if any(isinstance(part, cst.Call) and module.qualified(part.func) in HALF for part in inside(node)):
        porting.settle(node, str(known), RULE, REASON)


def _settle_choice(porting: Porting, node: cst.IfExp) -> None:
    """`torch.bfloat16 if self.device == "cuda" else torch.float32`."""
    module = porting.module
    if not _open(porting, node) or not asks_for_gpu(module, node.test) or places(porting, node):
        return
    known = on_gpu(porting, node.test)
    ways = [*_ways(porting, node.body), *_ways(porting, node.orelse)]
    if known is None or any(names_device(porting, way) or has_names_of_gpu(porting, way) for way in ways):
        return
    if isinstance(known, str):
        porting.edit(*module.span(node.test), bare(known), RULE, REASON)
        return
    chosen = node.body if known else node.orelse
    while isinstance(chosen, cst.IfExp) and isinstance(further := on_gpu(porting, chosen.test), bool):
        chosen = chosen.body if further else chosen.orelse
    porting.settle(node, porting.code_now(chosen), RULE, REASON)


def _ways(porting: Porting, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a value may be; of one that a GPU settles, too, each: `b if device == "mps" else c`."""
    if isinstance(node, cst.IfExp) and isinstance(on_gpu(porting, node.test), bool):
        yield from _ways(porting, node.body)
        yield from _ways(porting, node.orelse)
    else:
        yield node


def _settle_branches(porting: Porting, node: cst.If) -> None:
    """`if device == "cuda": return torch.bfloat16`; where branches say a device as well, the types of all of them are
    those of the one that ran."""
    branches = [*_branches(node)]
    asks = any(test is not None and asks_for_gpu(porting.module, test) for test, _ in branches)
    if not _open(porting, node.test) or not asks:
        return
    taken = _taken(porting, branches)
    if taken is None:
        return
    lines = [[*small(body)] for _, body in branches]
    if not any(names_device(porting, line) for body in lines for line in body):
        if all(_gives(porting, body) for body in lines):
            _keep(porting, node, branches, taken)
        return
    block = porting.module.parents[node]
    around = [*block.body] if isinstance(block, cst.IndentedBlock | cst.Module) else []
    before, behind = around[: around.index(node)], around[around.index(node) + 1 :]
    if branches[-1][0] is not None and all(isinstance(body[-1], cst.Return) for body in lines):
        lines.append([line for statement in behind for line in _lines(statement)])
    if taken < len(lines):
        _same_types(porting, lines, taken, [line for statement in before for line in _lines(statement)])


def _lines(statement: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(statement.body) if isinstance(statement, cst.SimpleStatementLine) else (statement,)


def _branches(node: cst.If) -> Iterator[Branch]:
    yield node.test, node.body
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse)
    elif node.orelse is not None:
        yield None, node.orelse.body


def _taken(porting: Porting, branches: list[Branch]) -> int | None:
    """The branch that the GPU run took, their number where it took none; None where nobody knows."""
    for place, (test, _) in enumerate(branches):
        known = True if test is None else on_gpu(porting, test)
        if known is True:
            return place
        if known is not False:
            return None
    return len(branches)


def _gives(porting: Porting, lines: list[cst.CSTNode]) -> bool:
    """Whether a block gives types, switches and numbers alone, to names or back, or leaves it to further conditions."""
    return bool(lines) and all(
        is_setting(porting, line)
        or (isinstance(line, cst.Return | cst.Assign) and line.value is not None and _is_type(porting, line.value))
        or (isinstance(line, cst.If) and all(_gives(porting, [*small(body)]) for _, body in _branches(line)))
        for line in lines
    )


def _is_type(porting: Porting, value: cst.BaseExpression) -> bool:
    """A type, a switch, a number, or several of them."""
    if isinstance(value, cst.Tuple):
        return all(_is_type(porting, element.value) for element in value.elements)
    return is_precision(porting, value) or isinstance(known_value(porting, value), int | float)


def _keep(porting: Porting, node: cst.If, branches: list[Branch], taken: int) -> None:
    """Keep the branch that ran, and nothing of what stands behind its `return`."""
    module = porting.module
    if len(branches) > 2 or not keep_branch(porting, node, taken == 0, RULE, REASON):
        for place, (test, _) in enumerate(branches):
            if test is not None and _open(porting, test):
                porting.edit(*module.span(test), str(place == taken), RULE, REASON)
    block = module.parents[node]
    if taken < len(branches) and _returns([*small(branches[taken][1])]) and isinstance(block, cst.IndentedBlock):
        for line in block.body[block.body.index(node) + 1 :]:
            porting.remove_statement(line.body[0] if isinstance(line, cst.SimpleStatementLine) else line, RULE, GUARD)


def _returns(lines: list[cst.CSTNode]) -> bool:
    """Whether a block surely gives back something."""
    last = lines[-1]
    if not isinstance(last, cst.If):
        return isinstance(last, cst.Return)
    branches = [*_branches(last)]
    return branches[-1][0] is None and all(_returns([*small(body)]) for _, body in branches)


def _same_types(porting: Porting, lines: list[list[cst.CSTNode]], taken: int, before: list[cst.CSTNode]) -> None:
    """Give each branch the types of the one that ran, and what they are given in front of it."""
    module = porting.module
    ran = dict(pair for line in lines[taken] for pair in _given(porting, line))
    others = [line for place, body in enumerate(lines) if place != taken for line in body]
    for name, value in (pair for line in (*before, *others) for pair in _given(porting, line)):
        if name in ran and _open(porting, value):
            porting.edit(*module.span(value), _spelled(porting, ran[name]), RULE, REASON)
    module.memory.setdefault(SAME, set()).update(ran)


def _spelled(porting: Porting, value: cst.BaseExpression) -> str:
    """A type as JAX spells it: `jnp.bfloat16` of both halves."""
    kind = constants(porting.module).get(porting.module.qualified(value) or "")
    if kind is None:
        return porting.module.code(value)
    porting.imports.add("import jax.numpy as jnp")
    return f"jnp.{kind.replace('bfloat16', 'float16').replace('float16', 'bfloat16')}"


def _given(porting: Porting, line: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The types and switches that a line gives, by the code of what gets them; those of a `return` by their place."""
    module, pairs = porting.module, list[tuple[str, cst.BaseExpression]]()
    if isinstance(line, cst.Return) and line.value is not None:
        parts = [each.value for each in line.value.elements] if isinstance(line.value, cst.Tuple) else [line.value]
        pairs = [(f"return {place}", part) for place, part in enumerate(parts)]
    elif isinstance(line, cst.Assign) and len(line.targets) == 1:
        target, value = line.targets[0].target, line.value
        pairs = [(module.code(target), value)]
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            both = zip(target.elements, value.elements, strict=False)
            pairs = [(module.code(one.value), other.value) for one, other in both]
    for name, given in [*pairs]:
        if isinstance(given, cst.Dict):
            items = [each for each in given.elements if isinstance(each, cst.DictElement)]
            pairs += [(f"{name}[{module.code(each.key)}]", each.value) for each in items]
    for name, given in pairs:
        is_switch = isinstance(known_value(porting, given), bool)
        if is_precision(porting, given) and (not is_switch or PRECISION.search(name)):
            yield name, given


def _settle_switch(porting: Porting, node: cst.BaseExpression) -> None:
    """`self.bf16 = torch.cuda.is_available()`, `{"fp16": device == "cuda"}`, `use_bf16: bool = available()`."""
    module = porting.module
    if not _open(porting, node) or not asks_for_gpu(module, node):
        return
    name = _slot(porting, node)
    if name is None or not PRECISION.search(name):
        return
    known = on_gpu(porting, node)
    if known is not None and known != module.code(node):
        porting.settle(node, bare(str(known)), RULE, REASON)


def _slot(porting: Porting, node: cst.BaseExpression) -> str | None:
    """What holds a value: the code of a target, the key of an item, the keyword of an argument."""
    module, parent = porting.module, porting.module.parents[node]
    if isinstance(parent, cst.Lambda):  # field(default_factory=lambda: ...)
        parent = module.parents[module.parents[module.parents[parent]]]
    elif isinstance(parent, cst.Arg) and module.code(module.parents[parent].func) == "field":  # type: ignore[attr-defined]
        parent = module.parents[module.parents[parent]]
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        return module.code(parent.targets[0].target)
    if isinstance(parent, cst.AnnAssign):
        return module.code(parent.target)
    if isinstance(parent, cst.DictElement):
        return module.code(parent.key)
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        call = module.parents[parent]
        return (
            option_of(porting, call)
            if isinstance(call, cst.Call) and parent.keyword.value == "default"
            else parent.keyword.value
        )
    return None


def option_of(porting: Porting, call: cst.Call) -> str:
    """The name of the option that a call adds to a parser, `add_argument("--bf16", ...)`; "" for any other call."""
    option = OPTION.match(porting.module.code(call))
    return option[1].replace("-", "_") if option is not None else ""
