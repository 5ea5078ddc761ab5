"""What torch answered about a GPU where something else holds it: a variable, an attribute, a parameter, a function.

class Settings:
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32

def pick(device):
    return torch.bfloat16 if device == "cuda" else torch.float32

Only what can hold nothing else is followed: an attribute that is set once, a parameter that every caller of the file
gives, a function whose lines are assignments, conditions and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from .calls import argument_of, calls_of, class_of, function_around
from .machine.gpu_of_run import is_build, is_device, seen_on_gpu, speaks_of_gpu
from .scopes import Binding, Scope, inside, is_main_guard, owner_of

if TYPE_CHECKING:
    from .module import Module

Evaluate = Callable[[cst.BaseExpression], Any]
ASKED = "what asks for a GPU"  # of `Module.memory`
FIELD = "dataclasses.field"
SETTERS = ("setattr", "__dict__", "vars(")
PASSED = (cst.Assign, cst.AnnAssign, cst.Expr, cst.Pass, cst.Import, cst.ImportFrom, cst.Assert, cst.Global)
MAX_CALLERS = 20
MAX_WAYS = 12  # assignments to a name


def asks_for_gpu(module: Module, node: cst.BaseExpression) -> bool:
    """Whether an expression asks torch, or something that holds what torch answered."""
    if not speaks_of_gpu(module):
        return False
    memory: dict[cst.CSTNode, bool] = module.memory.setdefault(ASKED, {})
    if node not in memory:
        memory[node] = False  # what asks for itself asks for nothing
        memory[node] = any(_asks(module, part) for part in inside(node))
    return memory[node]


def _asks(module: Module, part: cst.CSTNode) -> bool:
    if isinstance(part, cst.Call):
        return seen_on_gpu(module, part) is not None or _function_asks(module, module.callees.get(part))
    if isinstance(part, cst.Attribute):
        if is_device(module, part) or is_build(module, part):
            return True
        method = _property(module, part)
        value = held_value(module, part) if method is None else None
        return asks_for_gpu(module, value) if value is not None else _function_asks(module, method)
    if not isinstance(part, cst.Name) or module.is_member(part):
        return False
    binding = module.single_binding(part)
    if binding is None:
        return any(asks_for_gpu(module, test) for test in _tests_of(module, part))
    if binding.kind == "parameter":
        return any(asks_for_gpu(module, given) for given in given_to(module, binding) or ())
    return binding.value is not None and asks_for_gpu(module, binding.value)


def _function_asks(module: Module, function: cst.FunctionDef | None) -> bool:
    """Whether what a function gives back hangs on a GPU: its returns, and the conditions that they stand in."""
    if function is None:
        return False
    memory: dict[cst.CSTNode, bool] = module.memory.setdefault(ASKED, {})
    if function not in memory:
        memory[function] = False
        memory[function] = any(
            asks_for_gpu(module, expression)
            for node in inside(function.body)
            if (expression := _decides(node)) is not None and function_around(module, node) is function
        )
    return memory[function]


def _decides(node: cst.CSTNode) -> cst.BaseExpression | None:
    return node.value if isinstance(node, cst.Return) else node.test if isinstance(node, cst.If) else None


def _tests_of(module: Module, node: cst.Name) -> list[cst.BaseExpression]:
    """The conditions under which a name of several values is given one."""
    found = module.meaning(node)
    bindings = found[1] if found is not None else []
    if not 1 < len(bindings) <= MAX_WAYS:
        return []
    ifs = {holder for binding in bindings for holder in _ifs_around(module, binding) or ()}
    return [holder.test for holder in ifs]


def _ifs_around(module: Module, binding: Binding) -> list[cst.If] | None:
    """The `if`s in which an assignment stands in its function or class; None where a loop or a `try` is around it."""
    found: list[cst.If] = []
    for node in module.ancestors(binding.node):
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            break
        if isinstance(node, cst.For | cst.While | cst.Try | cst.TryStar | cst.With | cst.Match):
            return None
        if isinstance(node, cst.If) and not is_main_guard(node):
            found.append(node)
    return found


def last_given(module: Module, node: cst.Name, evaluate: Evaluate) -> Binding | None:
    """The binding that holds at a use of a name which branches give a value by what torch answers:

    dtype = torch.float32
    if torch.cuda.is_available():
        dtype = torch.bfloat16
    """
    found = module.meaning(node)
    if found is None or not asks_for_gpu(module, node):
        return None
    reached: Binding | None = None
    for binding in found[1]:
        ifs = _ifs_around(module, binding)
        if ifs is None or binding.kind not in ("assign", "unpack"):
            return None
        around = [binding.node, *module.ancestors(binding.node)]
        if all((holder.body in around) is bool(evaluate(holder.test)) for holder in ifs):
            reached = binding
    if reached is None or (module.scope(node) is found[0] and module.span(node)[0] < module.span(reached.node)[1]):
        return None
    return reached


def given_to(module: Module, binding: Binding) -> list[cst.BaseExpression] | None:
    """What every caller gives for a parameter; None where another file, or something else, may call the function."""
    parameter = binding.node
    function = module.parents.get(module.parents[parameter]) if isinstance(parameter, cst.Param) else None
    if not isinstance(parameter, cst.Param) or not isinstance(function, cst.FunctionDef) or function.decorators:
        return None
    calls = calls_of(module, function)
    if not 0 < len(calls) <= MAX_CALLERS or not _only_called(module, function, len(calls)):
        return None
    values = [argument_of(module, call, parameter.name.value) for call in calls]
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) else None


def _only_called(module: Module, function: cst.FunctionDef, calls: int) -> bool:
    """Whether every use of a function's name is a call of it; of a constructor every use of its class."""
    name, scope = function.name.value, module.scope(function)
    if not isinstance(scope.node, cst.ClassDef):
        return len(module.references(name, scope)) == calls
    if name != "__init__":
        return len(module.attributes_named(name)) == calls
    uses = module.references(scope.node.name.value, module.scope(scope.node))
    return sum(not isinstance(module.parents[use], cst.Annotation) for use in uses) == calls


def held_value(module: Module, node: cst.Attribute) -> cst.BaseExpression | None:
    """The one value that an attribute of an object of the file has; None where another may be given to it."""
    if not isinstance(node.value, cst.Name) or any(setter in module.text for setter in SETTERS):
        return None
    name = node.attr.value
    owner = owner_of(node, module.scope(node)) or _class(module, node.value)
    if owner is None:
        return None
    in_body, on_self = owner.bindings.get(name, []), owner.attributes.get(name, [])
    made = [*in_body, *on_self]
    if len(made) != 1 or made[0].conditional or made[0].kind != "assign" or made[0].value is None:
        return None
    if sum(module.is_set(each) for each in module.attributes_named(name)) != len(on_self):
        return None
    if in_body and not _is_made_bare(module, owner):
        return None
    return _default(module, made[0].value)


def _class(module: Module, node: cst.Name) -> Scope | None:
    return class_of(module, node, instance=False) or class_of(module, node, instance=True)


def _is_made_bare(module: Module, owner: Scope) -> bool:
    """Whether every object of a class is made of nothing, and nobody else gets it: no parser fills its fields."""
    assert isinstance(owner.node, cst.ClassDef)
    for use in module.references(owner.node.name.value, module.scope(owner.node)):
        parent = module.parents[use]
        called = isinstance(parent, cst.Call) and parent.func is use and not parent.args
        if not called and not isinstance(parent, cst.Attribute | cst.Annotation):
            return False
    return True


def _default(module: Module, value: cst.BaseExpression) -> cst.BaseExpression | None:
    """What a field of a dataclass has by itself: of `field(default_factory=lambda: x)` x."""
    if not isinstance(value, cst.Call) or module.qualified(value.func) != FIELD:
        return value
    given = {argument.keyword.value: argument.value for argument in value.args if argument.keyword is not None}
    made = given.get("default_factory")
    return made.body if isinstance(made, cst.Lambda) else given.get("default")


def _property(module: Module, node: cst.Attribute) -> cst.FunctionDef | None:
    """The method that computes an attribute."""
    owner = owner_of(node, module.scope(node))
    if owner is None and isinstance(node.value, cst.Name):
        owner = _class(module, node.value)
    made = owner.bindings.get(node.attr.value, ()) if owner is not None else ()
    method = made[0].node if len(made) == 1 else None
    is_property = isinstance(method, cst.FunctionDef) and [
        module.code(each.decorator).rpartition(".")[2] for each in method.decorators
    ] in (["property"], ["cached_property"])
    return method if is_property and isinstance(method, cst.FunctionDef) else None


def held_answers(module: Module, node: cst.BaseExpression, evaluate: Evaluate) -> Iterator[cst.BaseExpression]:
    """The expressions that an attribute, a parameter or a call of the file's own function that asks for a GPU has the
    value of: all of them have to be one. `evaluate` tells conditions; what it raises comes out."""
    if not asks_for_gpu(module, node):
        return
    if isinstance(node, cst.Name):
        binding = module.single_binding(node)
        if binding is not None and binding.kind == "parameter":
            yield from given_to(module, binding) or ()
    elif isinstance(node, cst.Attribute):
        if (method := _property(module, node)) is not None:
            yield from _given_back(method, evaluate)
        elif (value := held_value(module, node)) is not None:
            yield value
    elif isinstance(node, cst.Call) and (function := module.callees.get(node)) is not None:
        if not function.decorators and function.asynchronous is None and function.name.value != "__init__":
            yield from _given_back(function, evaluate)


def _given_back(function: cst.FunctionDef, evaluate: Evaluate) -> Iterator[cst.BaseExpression]:
    """The one expression that a function comes to return; nothing where more happens than conditions tell."""
    found = _end(function.body, evaluate)
    if isinstance(found, cst.Return) and found.value is not None:
        yield found.value


def _end(body: cst.BaseSuite, evaluate: Evaluate) -> cst.Return | bool:
    """The `return` that a block comes to; True where it goes on behind itself, False where nobody knows."""
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            for line in statement.body:
                if isinstance(line, cst.Return):
                    return line
                if not isinstance(line, PASSED):
                    return False
        elif isinstance(statement, cst.If):
            found = _end_of_if(statement, evaluate)
            if found is not True:
                return found
        else:
            return False
    return True


def _end_of_if(statement: cst.If, evaluate: Evaluate) -> cst.Return | bool:
    if evaluate(statement.test):
        return _end(statement.body, evaluate)
    if isinstance(statement.orelse, cst.If):
        return _end_of_if(statement.orelse, evaluate)
    return _end(statement.orelse.body, evaluate) if statement.orelse is not None else True
