"""What may be None when the script runs: by a function that returns it, a branch, or a name that starts as it."""

from __future__ import annotations

from itertools import pairwise

import libcst as cst

from ....source.calls import function_around
from ....source.dictionaries.items import dict_items
from ....source.module import Module
from ..flow import origins
from ..sites import facts_of

DEEPEST = 8  # expressions that lead to one another


def may_be_none(module: Module, node: cst.BaseExpression | None) -> bool:
    """Whether what `node` stands for comes from a function that may give None instead."""
    made = (module.callees.get(value) for value in origins(module, node) if isinstance(value, cst.Call))
    return any(function is not None and _gives_none(module, function) for function in made)


def is_none_somewhere(module: Module, node: cst.BaseExpression | None) -> bool:
    """Whether `node` is None in a branch: `x if args.do_eval else None`, or a name that one of its lines sets to it.

    Not where it stands below a condition that it is something: `if args.do_eval and x is not None: f(x)`.
    """
    if isinstance(node, cst.Name) and _is_asked_above(module, node):
        return False
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    given = [binding.value for binding in found[1] if binding.index is None] if found is not None else [node]
    return may_be_none(module, node) or any(_has_none(value) for value in given)


def _is_asked_above(module: Module, name: cst.Name) -> bool:
    """Whether an `if` around a name lets only what isn't None come to it, and nothing in its body binds the name."""
    for inner, outer in pairwise((name, *module.ancestors(name))):
        if isinstance(outer, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            return False
        if isinstance(outer, cst.If | cst.IfExp) and outer.body is inner and _asks(outer.test, name.value):
            start, end = module.span(inner)
            found = module.meaning(name)
            bound = [module.span(binding.node)[0] for binding in found[1]] if found is not None else []
            return not any(start <= offset < end for offset in bound)
    return False


def _asks(test: cst.BaseExpression, name: str) -> bool:
    """Whether a condition holds only where a name isn't None: `name`, `name is not None`, one of these and more."""
    match test:
        case cst.Name():
            return test.value == name
        case cst.BooleanOperation(operator=cst.And()):
            return _asks(test.left, name) or _asks(test.right, name)
        case cst.Comparison(
            left=cst.Name(value=asked),
            comparisons=[cst.ComparisonTarget(operator=cst.IsNot() | cst.NotEqual(), comparator=cst.Name("None"))],
        ):
            return asked == name
    return False


def is_tested_for_none(module: Module, node: cst.BaseExpression | None) -> bool:
    """Whether the script compares the name `node` with None, or branches on it."""
    if not isinstance(node, cst.Name):
        return False
    found = module.meaning(node)
    uses = module.references(node.value, found[0]) if found is not None else ()
    return any(_tests(module.parents[use], use) for use in uses)


def _tests(parent: cst.CSTNode, name: cst.CSTNode) -> bool:
    match parent:
        case cst.If(test=test) | cst.IfExp(test=test):
            return test is name
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=cst.Name("None"))]):
            return left is name
    return isinstance(parent, cst.BooleanOperation | cst.UnaryOperation)


def is_something(module: Module, node: cst.BaseExpression | None, depth: int = 0) -> bool:
    """Whether `node` surely isn't None: a text, what a GPU library holds, a lookup in it, or a choice among such."""
    if node is None or depth > DEEPEST:
        return False
    match node:
        case cst.SimpleString() | cst.FormattedString():
            return True
        case cst.IfExp():
            return is_something(module, node.body, depth + 1) and is_something(module, node.orelse, depth + 1)
        case cst.BooleanOperation(operator=cst.Or()):
            return is_something(module, node.right, depth + 1)
        case cst.Call(func=cst.Name("getattr"), args=[held, _]):
            return module.qualified(held.value) in facts_of(module).gpu_side
        case cst.Subscript():
            return _holds_something(module, node.value, depth)
        case cst.Call(func=cst.Attribute(value=table, attr=cst.Name("get")), args=[_, default]):
            return _holds_something(module, table, depth) and is_something(module, default.value, depth + 1)
    package, _, member = (module.qualified(node) or "").partition(".")
    if member and package in facts_of(module).gpu_side:
        return True
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    bindings = found[1] if found is not None else []
    return bool(bindings) and all(
        binding.kind == "assign" and binding.index is None and is_something(module, binding.value, depth + 1)
        for binding in bindings
    )


def _holds_something(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    """Whether `node` is a dictionary whose values all are something."""
    binding = module.single_binding(node)
    items = dict_items(module, binding.value if binding is not None and binding.value is not None else node)
    return bool(items) and all(is_something(module, value, depth + 1) for _, value in items or ())


def _has_none(node: cst.BaseExpression | None) -> bool:
    if isinstance(node, cst.IfExp):
        return _has_none(node.body) or _has_none(node.orelse)
    return isinstance(node, cst.Name) and node.value == "None"


def _gives_none(module: Module, function: cst.FunctionDef) -> bool:
    if function.name.value == "__init__":
        return False
    returns = (each for each in module.parents if isinstance(each, cst.Return))
    own = [each.value for each in returns if function_around(module, each) is function]
    bare = any(value is None or (isinstance(value, cst.Name) and value.value == "None") for value in own)
    return bare or not _ends(function.body)


def _ends(block: cst.CSTNode) -> bool:
    """Whether a block surely returns or raises at its end."""
    body = block.body if isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite) else ()
    last = body[-1] if body else None
    while isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    match last:
        case cst.Return() | cst.Raise():
            return True
        case cst.If(orelse=cst.If() | cst.Else() as other):
            return _ends(last.body) and _ends(other.body if isinstance(other, cst.Else) else cst.IndentedBlock([other]))
        case cst.With():
            return _ends(last.body)
        case cst.Try():
            return _ends(last.body) and all(_ends(handler.body) for handler in last.handlers)
    return False
