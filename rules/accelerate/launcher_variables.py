"""LOCAL_RANK, RANK, MASTER_PORT and the like: what one process alone had.

What it does: `os.environ["LOCAL_RANK"]` becomes `os.environ.get("LOCAL_RANK", "0")`. What can't go on without such a
variable is named: tests that end the script (a warning where another `if` decides over them), reads of several in a
loop, `+=` and `del`. Left alone: what the script sets above, asks for (`if "RANK" in os.environ:`), or catches
(`except KeyError:`, unless that ends the script, too).
Why: torchrun and accelerate set them on a GPU machine; nobody does on a TPU, and the port would end there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, Unknown, evaluate

from ._environment import (
    EVERYTHING,
    MISSING_KEY,
    NOT_A_NUMBER,
    READS,
    ends,
    is_caught,
    is_environ,
    is_tested,
    truth,
    use_of,
    variables,
    written,
)

ID = "TP425"
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


@step(Phase.ANSWER, reads=("number of processes",), anywhere=True)
def answer_launcher_variables(porting: Porting) -> None:
    """Reads get what one process had; what ends the port is named. `WORLD_SIZE` where its number isn't told."""
    if "environ" not in porting.module.text and "getenv" not in porting.module.text:
        return
    for node, key in _reads(porting):
        names = values_of(porting, key)
        start, end = porting.module.span(node)
        if not names & set(ALONE) or porting.covered(start) or is_set(porting, names, start):
            continue
        if is_tested(porting.module, node, key):
            continue
        if len(names) > 1 or use_of(porting.module, node) == "change":
            _say(porting, node, names & set(ALONE))
            continue
        (name,) = names
        called = porting.module.code(node.func if isinstance(node, cst.Call) else node.value)
        called = called if isinstance(node, cst.Call) else f"{called}.get"
        if "jax." in ALONE[name]:
            porting.imports.add("import jax")
        porting.edit(start, end, f"{called}({porting.module.code(key)}, {ALONE[name]})", ID, REASON)
    _say_guards(porting)


def _say(porting: Porting, node: cst.CSTNode, names: set[str], *, certain: bool = True) -> None:
    said = ", ".join(sorted(names))
    end = "the port ends here." if certain else "the port ends here, if it comes to this."
    message = f"{porting.module.code(node).strip()}: {said} is set by the GPU's launcher alone: {end}"
    porting.find(ID, "error" if certain else "warning", message, FIX, *porting.module.location(node))


def _reads(porting: Porting) -> Iterator[tuple[cst.Subscript | cst.Call, cst.BaseExpression]]:
    """What ends without the variable: `os.environ[key]`, and `int(os.getenv(key))`, which has no default."""
    module = porting.module
    for node, key in variables(module):
        if use_of(module, node) != "write" and not is_caught(module, node, MISSING_KEY):
            yield node, key
    for call in module.calls:
        if module.qualified(call.func) in READS and len(call.args) == 1:
            around = module.parents[module.parents[call]]
            if isinstance(around, cst.Call) and module.code(around.func) == "int":
                if not is_caught(module, call, NOT_A_NUMBER):
                    yield call, call.args[0].value


def _say_guards(porting: Porting) -> None:
    """Name the tests that end the script: `assert key in os.environ`, `if key not in os.environ: raise`."""
    module = porting.module
    for node in list(module.parents):
        if isinstance(node, cst.Assert):
            test, passes, ended = node.test, True, frozenset(["AssertionError"]) | EVERYTHING
        elif isinstance(node, cst.If) and ends(module, node.body):
            test, passes, ended = node.test, False, _raised(module, node.body)
        else:
            continue
        said = node if isinstance(node, cst.Assert) else test
        if porting.covered(module.span(said)[0]) or is_caught(module, node, ended):
            continue
        before = module.span(node)[0]
        unset = functools.partial(_unset, porting, before)
        names = {name for key in _asked(module, test, passes) for name in unset(key)}
        found = truth(module, test, unset)
        if not names or found is passes or _is_dead(module, node, unset):
            continue
        _say(porting, said, names, certain=found is not None and not _is_conditional(module, node))


def _unset(porting: Porting, before: int, key: cst.BaseExpression) -> set[str]:
    """The launcher's variables that a key may be, none where the script sets them itself."""
    names = values_of(porting, key) & set(ALONE)
    return set() if is_set(porting, names, before) else names


def _raised(module: Module, body: cst.BaseSuite) -> frozenset[str]:
    """What catches the last statement of a block, which raises or exits."""
    last = body.body[-1]
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    if not isinstance(small, cst.Raise):
        return frozenset(["SystemExit", "BaseException"])
    made = small.exc.func if isinstance(small.exc, cst.Call) else small.exc
    name = module.code(made).rpartition(".")[2] if made is not None else ""
    return frozenset([name, "BaseException"] if name == "SystemExit" else [name, *EVERYTHING])


def _asked(module: Module, test: cst.BaseExpression, wanted: bool) -> Iterator[cst.BaseExpression]:
    """The keys that a test wants set (or not set, where it isn't `wanted`), also under a name of the test."""
    match test:
        case cst.BooleanOperation():
            yield from _asked(module, test.left, wanted)
            yield from _asked(module, test.right, wanted)
        case cst.UnaryOperation(operator=cst.Not(), expression=held):
            yield from _asked(module, held, not wanted)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn() as said)]):
            if isinstance(said, cst.In) is wanted and is_environ(module, test.comparisons[0].comparator):
                yield left
        case cst.Name():
            made = module.single_binding(test)
            if made is not None and isinstance(made.value, cst.Comparison):
                yield from _asked(module, made.value, wanted)


def _is_dead(module: Module, node: cst.CSTNode, unset: Callable[[cst.BaseExpression], set[str]]) -> bool:
    """Whether a guard stands where the script comes with the launcher's variables alone: `if "RANK" in os.environ:`."""
    inner = node
    for around in module.ancestors(node):
        if isinstance(around, cst.If) and (inner is around.body or inner is around.orelse):
            if truth(module, around.test, unset) is (inner is not around.body):
                return True
        inner = around
    return False


def _is_conditional(module: Module, node: cst.CSTNode) -> bool:
    """Whether another `if` decides over a guard; the file's main guard is none."""
    conditions = (around.test for around in module.ancestors(node) if isinstance(around, cst.If))
    return any("__name__" not in module.code(test) for test in conditions)


def values_of(porting: Porting, key: cst.BaseExpression) -> set[str]:
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


def is_set(porting: Porting, names: set[str], before: int) -> bool:
    """Whether the script itself sets a variable above: `os.environ["MASTER_PORT"] = "29500"`."""
    places = [key for node, key in written(porting.module) if porting.module.span(node)[0] < before]
    return bool(names) and any(values_of(porting, key) >= names for key in places)
