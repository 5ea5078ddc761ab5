"""Variables that a GPU's launcher sets, `os.environ["LOCAL_RANK"]`: on a TPU nobody does, and the port would end there.

A read becomes `os.environ.get("LOCAL_RANK", "0")`, with what one process alone had; tests that end the script without
them, and reads of a name that the file doesn't write at the place, are named.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ....source.values import Unknown, evaluate
from ...script.porting import Porting

RULE = "TP425"
# What the one process of a host has.
ALONE = {
    "LOCAL_RANK": '"0"',
    "RANK": "str(jax.process_index())",
    "NODE_RANK": "str(jax.process_index())",
    "GROUP_RANK": "str(jax.process_index())",
    "WORLD_SIZE": '"1"',
    "LOCAL_WORLD_SIZE": '"1"',
    "MASTER_ADDR": '"localhost"',
    "MASTER_PORT": '"29500"',
    "CUDA_VISIBLE_DEVICES": '"0"',
}
REASON = "set by the GPU's launcher alone: what one process had"
FIX = "Leave it out, or set it where the port is started."


def answer_launcher_variables(porting: Porting) -> None:
    """Reads get what one process had; what ends the port is named. `WORLD_SIZE` where its number isn't told."""
    if "environ" not in porting.module.text and "getenv" not in porting.module.text:
        return
    if not porting.options.active(RULE):
        return
    for node, key in _reads(porting):
        names = _values(porting, key)
        start, end = porting.module.span(node)
        if not names & set(ALONE) or porting.covered(start) or _is_set(porting, names, start):
            continue
        if len(names) > 1:
            _say(porting, node, names & set(ALONE))
            continue
        (name,) = names
        called = porting.module.code(node.func if isinstance(node, cst.Call) else node.value)
        called = called if isinstance(node, cst.Call) else f"{called}.get"
        if "jax." in ALONE[name]:
            porting.imports.add("import jax")
        porting.edit(start, end, f"{called}({porting.module.code(key)}, {ALONE[name]})", RULE, REASON)
    for test, key in _guards(porting):
        names = _values(porting, key) & set(ALONE)
        if names and not porting.covered(porting.module.span(test)[0]):
            _say(porting, test, names)


def _say(porting: Porting, node: cst.CSTNode, names: set[str]) -> None:
    said = ", ".join(sorted(names))
    message = f"{porting.module.code(node).strip()}: {said} is set by the GPU's launcher alone: the port ends here."
    porting.find(RULE, "error", message, FIX, *porting.module.location(node))


def _reads(porting: Porting) -> Iterator[tuple[cst.Subscript | cst.Call, cst.BaseExpression]]:
    """`os.environ[key]`, and `int(os.getenv(key))`, which has no default."""
    module = porting.module
    for node in module.parents:
        if isinstance(node, cst.Subscript) and module.qualified(node.value) == "os.environ" and len(node.slice) == 1:
            index, around = node.slice[0].slice, module.parents[node]
            if isinstance(index, cst.Index) and not isinstance(around, cst.AssignTarget | cst.Del):
                yield node, index.value
    for call in module.calls:
        if module.qualified(call.func) in ("os.environ.get", "os.getenv") and len(call.args) == 1:
            around = module.parents[module.parents[call]]
            if isinstance(around, cst.Call) and module.code(around.func) == "int":
                yield call, call.args[0].value


def _guards(porting: Porting) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Tests that end the script: `assert key in os.environ`, `if key not in os.environ: raise`."""
    for node in porting.module.parents:
        if isinstance(node, cst.Assert):
            yield from ((node, key) for key in _asked(porting, node.test, cst.In))
        elif isinstance(node, cst.If) and _raises(node.body):
            yield from ((node.test, key) for key in _asked(porting, node.test, cst.NotIn))


def _asked(porting: Porting, test: cst.BaseExpression, operator: type[cst.BaseCompOp]) -> Iterator[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation):
        yield from _asked(porting, test.left, operator)
        yield from _asked(porting, test.right, operator)
    elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        if isinstance(target.operator, operator) and porting.module.qualified(target.comparator) == "os.environ":
            yield test.left


def _raises(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(small, cst.Raise)


def _values(porting: Porting, key: cst.BaseExpression) -> set[str]:
    """What a key may be: a text, or what a loop goes through, `for name in ("RANK", "WORLD_SIZE")`."""
    try:
        return {str(evaluate(porting.module, key))}
    except Unknown:
        pass
    for around in porting.module.ancestors(key):
        loop: cst.For | cst.CompFor | None = around if isinstance(around, cst.For | cst.CompFor) else None
        if isinstance(around, cst.BaseComp):
            loop = around.for_in
        if loop is not None and porting.module.code(loop.target).strip() == porting.module.code(key):
            try:
                found = evaluate(porting.module, loop.iter)
            except Unknown:
                return set()
            return {str(each) for each in found} if isinstance(found, list | tuple | set) else set()
    return set()


def _is_set(porting: Porting, names: set[str], before: int) -> bool:
    """Whether the script itself sets a variable above: `os.environ["MASTER_PORT"] = "29500"`."""
    module = porting.module
    for node in module.parents:
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Subscript):
            index = node.target.slice[0].slice
            written = isinstance(index, cst.Index) and module.qualified(node.target.value) == "os.environ"
            if written and module.span(node)[0] < before and isinstance(index, cst.Index):
                if _values(porting, index.value) >= names:
                    return True
    return "os.environ.setdefault" in module.text and any(
        module.qualified(call.func) == "os.environ.setdefault" and _values(porting, call.args[0].value) >= names
        for call in module.calls
        if call.args
    )
