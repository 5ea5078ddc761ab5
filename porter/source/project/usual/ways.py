"""Which way a script goes unless its user says another: what its conditions are by the defaults of its arguments.

    if args.method == "llamafactory":    # parser.add_argument("--method", default="llamafactory")
        run_llamafactory()

Read, never run. Anything that isn't told by constants of the file and its arguments' defaults is None: not known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import libcst as cst

from ...calls import calls_of, function_around
from ...module import Module
from ...scopes import inside
from .environment import asked_by
from .parameters import defaults_of, given_to
from .trees import ADDS, declarations_of, fields_of, last_name, nodes_of, set_to_in, tree_of

DEEPEST = 8  # names that lead to one another, functions that call one another
SWITCHES = {"store_true": False, "store_false": True}
METHODS: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
CASTS: dict[str, Callable[[object], object]] = {"int": int, "float": float, "str": str}  # type: ignore[dict-item]
ENDS = ("sys.exit", "exit", "quit", "os._exit")


class Unsure(Exception):
    """A value that the file doesn't tell."""


def usual_way(module: Module, node: cst.CSTNode, depth: int = 0) -> bool | None:
    """Whether a run comes to `node` unless its user says another; None where that isn't known."""
    certain: bool | None = True
    below: cst.CSTNode = node
    for holder in module.ancestors(node):
        if isinstance(holder, cst.If | cst.IfExp) and below is not holder.test:
            comes = usually(module, holder.test)
            certain = _both(certain, comes if below is holder.body or comes is None else not comes)
        elif isinstance(holder, cst.IndentedBlock | cst.Module):
            certain = _both(certain, _not_left(module, holder, below))
        elif isinstance(holder, cst.ExceptHandler | cst.While | cst.For | cst.BooleanOperation | cst.Lambda):
            certain = _both(certain, None)
        elif isinstance(holder, cst.FunctionDef | cst.ClassDef):
            break
        below = holder
    function = function_around(module, node)
    if certain is False or function is None:
        return certain
    calls = calls_of(module, function) if depth < DEEPEST else []
    ways = [usual_way(module, call, depth + 1) for call in calls]
    if not ways:
        return None
    return _both(certain, True if True in ways else None if None in ways else False)


def imports_usually(module: Module, package: str) -> bool | None:
    """Whether a run that trains imports a package unless its user says another; None where that isn't known."""
    known: dict[str, bool | None] = module.memory.setdefault("usual imports", {})
    if package not in known:
        ways = {usual_way(module, node) for node in _imports(module, package)}
        known[package] = True if True in ways else None if None in ways or not _trains(module) else False
    return known[package]


def _trains(module: Module) -> bool:
    """Whether the file's trainers are on the usual way: `if args.train:` has all that it trains with beside them."""
    made = [call for call in module.calls if module.code(call.func).endswith("Trainer")]
    return not made or any(usual_way(module, call) is not False for call in made)


def imports_always(module: Module, package: str) -> bool:
    """Whether no condition of the file decides about all imports of a package."""
    return any(_is_unconditional(module, node) for node in _imports(module, package))


def _imports(module: Module, package: str) -> list[cst.CSTNode]:
    return [each.node for each in module.import_bindings if each.qualified.partition(".")[0] == package]


def _is_unconditional(module: Module, node: cst.CSTNode, depth: int = 0) -> bool:
    below = node
    for holder in module.ancestors(node):
        if isinstance(holder, cst.If) and "__name__" not in module.code(holder.test):
            return False
        if isinstance(holder, cst.IndentedBlock) and _not_left(module, holder, below) is not True:
            return False
        if isinstance(holder, cst.FunctionDef | cst.ClassDef):
            break
        below = holder
    function = function_around(module, node)
    calls = calls_of(module, function) if function is not None and depth < DEEPEST else []
    return not calls or any(_is_unconditional(module, call, depth + 1) for call in calls)


def usually(module: Module, test: cst.BaseExpression) -> bool | None:
    """What a condition is unless the user says another; None where that isn't known."""
    try:
        return bool(_value(ast.parse(module.code(test).strip(), mode="eval").body, tree_of(module.python), 0))
    except (Unsure, SyntaxError, ValueError, TypeError, RecursionError):
        return None


def usual_object(module: Module, node: cst.BaseExpression) -> object:
    """What an expression holds unless the user says another; Unsure where that isn't known."""
    try:
        return _value(ast.parse(module.code(node).strip(), mode="eval").body, tree_of(module.python), 0)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        raise Unsure from None


def _both(one: bool | None, other: bool | None) -> bool | None:
    return False if False in (one, other) else None if None in (one, other) else True


def _not_left(module: Module, block: cst.IndentedBlock | cst.Module, below: cst.CSTNode) -> bool | None:
    """Whether nothing in front of `below` in its block ends the function, or the run."""
    found: bool | None = True
    for statement in block.body:
        if statement is below:
            break
        if isinstance(statement, cst.If) and _leaves(module, statement.body):
            comes = usually(module, statement.test)
            if comes is not None or _does_more(module, statement.body):
                found = _both(found, None if comes is None else not comes)
    return found


def _does_more(module: Module, body: cst.BaseSuite) -> bool:
    """Whether a block that leaves also calls a function of the file: `if not path.exists(): return` only gives up."""
    return any(isinstance(node, cst.Call) and node in module.callees for node in inside(body))


def _leaves(module: Module, body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        return module.code(small.value.func) in ENDS
    return isinstance(small, cst.Return | cst.Raise)


def _value(node: ast.expr, tree: ast.Module, depth: int) -> object:
    """What an expression holds; Unsure where that isn't told."""
    if depth > DEEPEST:
        raise Unsure
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(each, tree, depth) for each in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, tree, depth)
    if isinstance(node, ast.BoolOp):
        return _joined(node, tree, depth)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node.ops[0], _value(node.left, tree, depth), _value(node.comparators[0], tree, depth))
    if isinstance(node, ast.Call):
        return _called(node, tree, depth)
    if isinstance(node, ast.Attribute):
        return _declared(node, tree, depth)
    if isinstance(node, ast.Name):
        return _named(node.id, tree, depth)
    raise Unsure


def _joined(node: ast.BoolOp, tree: ast.Module, depth: int) -> bool:
    """`and` and `or`: one part may decide where another isn't told."""
    decisive = isinstance(node.op, ast.Or)
    unsure = False
    for part in node.values:
        try:
            if bool(_value(part, tree, depth)) is decisive:
                return decisive
        except Unsure:
            unsure = True
    if unsure:
        raise Unsure
    return not decisive


def _compared(operator: ast.cmpop, left: object, right: object) -> bool:
    if isinstance(operator, ast.Eq | ast.NotEq):
        return (left == right) is isinstance(operator, ast.Eq)
    if isinstance(operator, ast.Is | ast.IsNot) and (left is None or right is None):
        return (left is right) is isinstance(operator, ast.Is)
    if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, list | str):
        return (left in right) is isinstance(operator, ast.In)
    raise Unsure


def _called(node: ast.Call, tree: ast.Module, depth: int) -> object:
    """`args.method.lower()`, `os.environ.get("METHOD", "trl")`, `getattr(args, "method", "trl")`."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS and not node.args:
        held = _value(node.func.value, tree, depth + 1)
        if isinstance(held, str):
            return METHODS[node.func.attr](held)
    name = ast.unparse(node.func)
    if name in CASTS and len(node.args) == 1:
        return CASTS[name](_value(node.args[0], tree, depth + 1))
    if (asked := asked_by(node)) is not None:
        return _value(asked[1], tree, depth + 1) if asked[1] is not None else None
    raise Unsure


def _declared(node: ast.Attribute, tree: ast.Module, depth: int) -> object:
    """The default of the argument, or of the class's field, that an attribute is."""
    for each in nodes_of(tree):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and each.attr == node.attr:
            raise Unsure
        if isinstance(each, ast.Attribute) and each.attr == "set_defaults":
            raise Unsure
    found: list[object] = []
    for each in declarations_of(tree):
        if isinstance(each, ast.ClassDef):
            found += [_value(value, tree, depth + 1) for name, value in fields_of(each) if name == node.attr]
        elif last_name(each.func).endswith(ADDS) and _destination(each) == node.attr:
            found.append(_default(each, tree, depth + 1))
    if not found or any(value != found[0] for value in found):
        raise Unsure
    return found[0]


def _destination(call: ast.Call) -> str:
    words = {word.arg: word.value for word in call.keywords}
    if isinstance(said := words.get("dest"), ast.Constant):
        return str(said.value)
    flags = [str(flag.value) for flag in call.args if isinstance(flag, ast.Constant)]
    long = next((flag for flag in flags if flag.startswith("--")), "")
    return long.lstrip("-").replace("-", "_")


def _default(call: ast.Call, tree: ast.Module, depth: int) -> object:
    words = {word.arg: word.value for word in call.keywords}
    if "default" in words:
        return _value(words["default"], tree, depth)
    if isinstance(required := words.get("required"), ast.Constant) and required.value:
        raise Unsure
    action = words.get("action")
    return SWITCHES.get(str(action.value)) if isinstance(action, ast.Constant) else None


def _named(name: str, tree: ast.Module, depth: int) -> object:
    """What a name is set to, once in the file, or a parameter of that name is given."""
    if name == "__name__":
        return "__main__"
    found = set_to_in(tree, name) or given_to(tree, name) or defaults_of(tree, name)
    values = [_value(each, tree, depth + 1) for each in found]
    if not values or any(value != values[0] for value in values):
        raise Unsure
    return values[0]
