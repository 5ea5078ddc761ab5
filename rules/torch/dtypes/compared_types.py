"""Comparisons with torch's half-width types, which are one type in the port: what they tell stays what it was.

    dtype = getattr(torch, model_args.dtype)
    args = SFTConfig(learning_rate=1e-5 if dtype == torch.float16 else 2e-5)

`torch.float16` is `jnp.bfloat16` where it is what something computes in; compared with, it would take bfloat16's part.
"""

from __future__ import annotations

import re

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Unknown, constants, decide_condition, evaluate, inside, origins

from .named_types import becomes_jnp

PART_OF = "TP522"
REASON = "the answer that the GPU run had"
HALVES = {"float16": "bfloat16", "bfloat16": "float16"}
SAME = (cst.Equal, cst.Is)
OTHER = (cst.NotEqual, cst.IsNot)
BY_NAME, NAME_OF_TORCH, OPEN = "a type by its name", "a type of torch by its name", "anything"


@step(Phase.ANSWER, fills=("claimed names",))
def answer_comparisons(porting: Porting) -> None:
    """Decide what is certain, keep what compares by name, and name what can't be told any more."""
    module = porting.module
    if not re.search(r"(==|!=|\bis\b)", module.text) or not re.search(r"float16|\bhalf\b", module.text):
        return
    for node in [node for node in module.parents if isinstance(node, cst.Comparison)]:
        found = _sides(porting, node)
        if found is not None:
            _answer(porting, node, *found)


def _sides(porting: Porting, node: cst.Comparison) -> tuple[cst.BaseExpression, cst.BaseExpression, str] | None:
    """The type that is compared with, the other side, and the type's name."""
    if len(node.comparisons) != 1 or not isinstance(node.comparisons[0].operator, SAME + OTHER):
        return None
    for one, other in ((node.comparisons[0].comparator, node.left), (node.left, node.comparisons[0].comparator)):
        name = constants(porting.module).get(porting.module.qualified(one) or "", "")
        if name in HALVES:
            return one, other, name
    return None


def _answer(
    porting: Porting, node: cst.Comparison, named: cst.BaseExpression, other: cst.BaseExpression, name: str
) -> None:
    module, same = porting.module, isinstance(node.comparisons[0].operator, SAME)
    held = _may_be(porting, other)
    if held == {name}:
        _decided(porting, node, same)
    elif not held & {name, BY_NAME, NAME_OF_TORCH, OPEN}:
        _decided(porting, node, not same)
    elif held <= {NAME_OF_TORCH, "None"}:
        porting.keep_names(named)
        code, torch = module.code(node), module.code(named).rpartition(".")[0]
        porting.respell(code, code.replace(module.code(named), f'getattr({torch}, "{name}")'))
    elif BY_NAME in held and not held & {NAME_OF_TORCH, OPEN, *HALVES}:
        porting.imports.add("import jax.numpy as jnp")
        _write(porting, node, named, f"jnp.{name}")
    elif HALVES[name] in held:
        message = f"{module.code(node)}: float16 and bfloat16 are one type in the port, so that it is always true."
        fix = "Test what decides the type."
        porting.find(PART_OF, "error", message, fix, *module.location(node))
    elif OPEN in held and not _is_of_a_tensor(other) and porting.keeps(node):
        message = f"{module.code(node)}: the port computes in bfloat16 where the source did in float16."
        porting.find(PART_OF, "warning", message, "Check what this decides.", *module.location(node), todo=True)


def _decided(porting: Porting, node: cst.Comparison, answer: bool) -> None:
    if porting.covered(porting.module.span(node)[0]):
        porting.respell(porting.module.code(node), str(answer))
    decide_condition(porting, node, lambda part: answer if part is node else None, PART_OF, REASON)


def _write(porting: Porting, node: cst.Comparison, named: cst.BaseExpression, text: str) -> None:
    """Spell a type as JAX does, in the comparison and where new code repeats it."""
    code, old = porting.module.code(node), porting.module.code(named)
    porting.respell(code, code.replace(old, text))
    if not porting.covered(porting.module.span(named)[0]):
        porting.edit(*porting.module.span(named), text, PART_OF, REASON)


def _is_of_a_tensor(node: cst.BaseExpression) -> bool:
    """`weights.dtype`, of something that stays torch's or that another rule names."""
    return isinstance(node, cst.Attribute) and node.attr.value == "dtype"


def _may_be(porting: Porting, node: cst.BaseExpression, depth: int = 0) -> set[str]:
    """What an expression may be: names of types and other literals, types by name, or anything."""
    module = porting.module
    try:
        return {str(evaluate(module, node))}
    except Unknown:
        pass
    if isinstance(node, cst.IfExp):
        return _may_be(porting, node.body, depth) | _may_be(porting, node.orelse, depth)
    if isinstance(node, cst.Call) and module.code(node.func) == "getattr" and node.args:
        if module.qualified(node.args[0].value) == "torch":
            return {BY_NAME if becomes_jnp(porting, node) else NAME_OF_TORCH}
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    values = [binding.value for binding in found[1] if binding.kind == "assign"] if found is not None else []
    if found is not None and values and len(values) == len(found[1]) and depth < len(HALVES) * 4:
        own = [value for value in values if value is not None and node.value not in _names(value)]  # type: ignore[attr-defined]
        return set().union(*(_may_be(porting, value, depth + 1) for value in own)) or {OPEN}
    made = [*origins(module, node)]
    return _may_be(porting, made[-1], depth + 1) if made and made[-1] is not node and depth < 8 else {OPEN}


def _names(node: cst.BaseExpression) -> set[str]:
    return {part.value for part in inside(node) if isinstance(part, cst.Name)}
