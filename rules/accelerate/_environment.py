"""What a script does with one variable of its environment: reads it, writes it, asks whether it is set.

if "RANK" in os.environ: ...                 asked, and set in the body
os.environ["A"], os.environ["B"] = a, b      written
try: os.environ["RANK"]
except KeyError: ...                         read, and the script knows what to do without it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import libcst as cst

from porter.packs.script import Module, Unknown, evaluate, index_of

Use = Literal["read", "write", "change"]  # a change, `+=` or `del`, needs the variable as a read does
READS = ("os.environ.get", "os.getenv")
EXITS = ("sys.exit", "os._exit")
EVERYTHING = frozenset(["Exception", "BaseException"])
MISSING_KEY = frozenset(["KeyError", "LookupError"]) | EVERYTHING
NOT_A_NUMBER = frozenset(["TypeError"]) | EVERYTHING
MAX_NAMES = 5  # that stand for a test


def variables(module: Module) -> Iterator[tuple[cst.Subscript, cst.BaseExpression]]:
    """Every `os.environ[key]` and its key, whatever is done with it."""
    for node in module.parents:
        if isinstance(node, cst.Subscript) and module.qualified(node.value) == "os.environ":
            if (key := index_of(node)) is not None:
                yield node, key


def use_of(module: Module, node: cst.CSTNode) -> Use:
    """What is done with `os.environ[key]`, also where it is one target of several."""
    around = module.parents[node]
    while isinstance(around, cst.BaseElement | cst.Tuple | cst.List):
        node, around = around, module.parents[around]
    match around:
        case cst.AssignTarget():
            return "write"
        case cst.Del():
            return "change"
        case cst.AugAssign() if around.target is node:
            return "change"
        case cst.AnnAssign() | cst.For() | cst.CompFor() if around.target is node:
            return "write"
        case cst.AsName():
            return "write"
    return "read"


def written(module: Module) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """The places that surely set a variable, and its key."""
    for node, key in variables(module):
        if use_of(module, node) == "write":
            yield node, key
    for call in module.calls:
        name, given = module.qualified(call.func), [argument.value for argument in call.args]
        if name == "os.environ.setdefault" and given:
            yield call, given[0]
        elif name == "os.environ.update" and given and isinstance(given[0], cst.Dict):
            yield from ((call, item.key) for item in given[0].elements if isinstance(item, cst.DictElement))


def is_caught(module: Module, node: cst.CSTNode, errors: frozenset[str]) -> bool:
    """Whether the script goes on, in a handler of its own, where `node` raises what `errors` names."""
    inner = node
    for around in module.ancestors(node):
        if isinstance(around, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(around, cst.Try | cst.TryStar) and inner is around.body:
            handler = next((each for each in around.handlers if _names(module, each.type) & errors), None)
            if handler is not None:
                return not ends(module, handler.body)
        if isinstance(around, cst.With) and inner is around.body:
            for call in (item.item for item in around.items):
                if isinstance(call, cst.Call) and module.qualified(call.func) == "contextlib.suppress":
                    if any(_names(module, argument.value) & errors for argument in call.args):
                        return True
        inner = around
    return False


def _names(module: Module, node: cst.BaseExpression | None) -> set[str]:
    """The exceptions that a handler takes; all where it names none."""
    if node is None:
        return {"BaseException"}
    parts = [element.value for element in node.elements] if isinstance(node, cst.Tuple) else [node]
    return {module.code(part).rpartition(".")[2] for part in parts}


def ends(module: Module, body: cst.BaseSuite) -> bool:
    """Whether a block ends the script: its last statement raises or exits."""
    last = _last(body)
    if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
        func = last.value.func
        return module.qualified(func) in EXITS or module.code(func) in ("exit", "quit")
    return isinstance(last, cst.Raise)


def _last(body: cst.BaseSuite) -> cst.CSTNode | None:
    last = body.body[-1] if body.body else None
    return last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last


def is_tested(module: Module, node: cst.CSTNode, key: cst.BaseExpression) -> bool:
    """Whether `node` is reached only where the script found the variable `key` set."""
    inner = node
    for around in module.ancestors(node):
        if any(_says(module, test, key, truth) for test, truth in _tests(module, around, inner)):
            return True
        inner = around
    return False


def _tests(module: Module, around: cst.CSTNode, inner: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The tests that decide whether the part `inner` of a node is come to, and how they must end."""
    match around:
        case cst.If() | cst.IfExp() | cst.While():
            if inner is around.body or inner is around.orelse:
                yield around.test, inner is around.body
        case cst.BooleanOperation():
            if inner is around.right:
                yield around.left, isinstance(around.operator, cst.And)
        case cst.BaseComp():
            loop: cst.CompFor | None = around.for_in if inner is not around.for_in else None
            while loop is not None:
                yield from ((each.test, True) for each in loop.ifs)
                loop = loop.inner_for_in
        case cst.IndentedBlock():
            for above in around.body:
                if above is inner:
                    return
                if isinstance(above, cst.If) and isinstance(_last(above.body), cst.Return | cst.Continue | cst.Break):
                    yield above.test, False


def _says(module: Module, test: cst.BaseExpression, key: cst.BaseExpression, truth: bool, depth: int = 0) -> bool:
    """Whether a test that ends with `truth` says that the variable `key` is set."""
    if depth > MAX_NAMES:
        return False
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=held):
            return _says(module, held, key, not truth, depth)
        case cst.BooleanOperation():
            sides = (_says(module, side, key, truth, depth) for side in (test.left, test.right))
            return any(sides) if isinstance(test.operator, cst.And) is truth else all(sides)
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=comparator)]):
            if isinstance(operator, cst.In | cst.NotIn) and is_environ(module, comparator):
                return isinstance(operator, cst.In) is truth and _is_same(module, left, key)
            if isinstance(operator, cst.Is | cst.IsNot) and module.code(comparator) == "None":
                return isinstance(operator, cst.IsNot) is truth and _asks_for(module, left, key)
        case cst.Call():
            return truth and _asks_for(module, test, key)
        case cst.Name():
            made = module.single_binding(test)
            if made is not None and made.kind == "assign" and made.value is not None:
                return _says(module, made.value, key, truth, depth + 1)
    return False


def is_environ(module: Module, node: cst.BaseExpression) -> bool:
    """`os.environ`, or its keys."""
    if isinstance(node, cst.Call) and not node.args:
        return module.qualified(node.func) == "os.environ.keys"
    return module.qualified(node) == "os.environ"


def _asks_for(module: Module, node: cst.BaseExpression, key: cst.BaseExpression) -> bool:
    """`os.environ.get(key)`, without a default that something could be told from."""
    if not isinstance(node, cst.Call) or module.qualified(node.func) not in READS or not node.args:
        return False
    default = module.code(node.args[1].value) if len(node.args) > 1 else "None"
    return default == "None" and _is_same(module, node.args[0].value, key)


def _is_same(module: Module, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    if module.code(one) == module.code(other):
        return True
    try:
        return bool(evaluate(module, one) == evaluate(module, other))
    except Unknown:
        return False


def truth(module: Module, test: cst.BaseExpression, unset: Callable[[cst.BaseExpression], object]) -> bool | None:
    """How a test ends where the variables that `unset` says are not set; None where that decides nothing."""
    return _truth(module, test, unset, 0)


def _truth(
    module: Module, test: cst.BaseExpression, unset: Callable[[cst.BaseExpression], object], depth: int
) -> bool | None:
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=held):
            found = _truth(module, held, unset, depth)
            return None if found is None else not found
        case cst.BooleanOperation():
            sides = [_truth(module, side, unset, depth) for side in (test.left, test.right)]
            decides = isinstance(test.operator, cst.Or)
            return decides if decides in sides else None if None in sides else not decides
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn() as said)]):
            if is_environ(module, test.comparisons[0].comparator) and unset(left):
                return isinstance(said, cst.NotIn)
        case cst.Name() if depth < MAX_NAMES:
            made = module.single_binding(test)
            if made is not None and made.kind == "assign" and made.value is not None:
                return _truth(module, made.value, unset, depth + 1)
    return None
