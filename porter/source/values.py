"""What expressions of the source are: known now, or decided at run time.

Only meanings that can't differ at run time are evaluated: literals, names bound once to them, arithmetic,
f-strings, conditional expressions, `dict(...)`. Nothing of the user's is ever called.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import libcst as cst

from .held_answers import asks_for_gpu, given_to, held_answers, held_value, last_given
from .held_values import changed_later
from .machine.gpu_of_run import (
    capability_binding,
    device_named,
    gpu_of_run,
    is_build,
    is_device,
    is_properties,
    may_be_told,
    seen_on_gpu,
)
from .machine.library_constants import constant, constants
from .module import Module
from .scopes import Binding

BINARY: dict[type[cst.BaseBinaryOp], Callable[[Any, Any], Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
    cst.BitOr: operator.or_,
}
COMPARISON: dict[type[cst.BaseCompOp], Callable[[Any, Any], Any]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.Is: lambda one, other: one == other if isinstance(one, str) else one is other,  # a constant is its name here
    cst.IsNot: lambda one, other: one != other if isinstance(one, str) else one is not other,
}
SIMPLE = (bool, int, float, str, bytes, type(None))
DECIDED = "conditions that are answered"  # of `Module.memory`: what an expression is, by itself
MAX_DEPTH = 40
MAX_REPEATED = 20  # assignments of one value to a name
MAX_SIZE = 10_000  # characters of a text, items of a collection with all that they hold
MAX_BITS = 4_096  # of an integer: Python writes none of more than 4,300 digits
# A width that a format is given, `%9999d`: what is wider is no setting.
WIDE = re.compile(r"\d{4}|\*")


class Unknown(Exception):
    """The expression's value is decided when the script runs."""


def evaluate(module: Module, node: cst.BaseExpression, depth: int = 0) -> Any:
    """The Python object an expression certainly has; Unknown when that is decided at run time, or far too large.

    Each expression is looked at once: names of names of names cost no more than they are long.
    """
    if depth > MAX_DEPTH:
        raise Unknown
    if node in module.memory.get(DECIDED, ()):
        return module.memory[DECIDED][node]
    memory = module.memory.setdefault("values", {})
    if node not in memory:
        memory[node] = Unknown  # what asks for itself has no value
        try:
            found = _evaluate(module, node, depth + 1)
            if not is_small(found):
                raise Unknown
        except Unknown:
            if depth:  # perhaps only too deep from there
                del memory[node]
            raise
        except BaseException:
            del memory[node]
            raise
        memory[node] = found
    if memory[node] is Unknown:
        raise Unknown
    return memory[node]


def is_small(value: object) -> bool:
    """Whether a value is one that a script sets: no more than MAX_SIZE items in all, counted as often as they stand
    in it."""
    pending, size = [value], 0
    while pending:
        item = pending.pop()
        size += len(item) if isinstance(item, str | bytes) else 1
        if isinstance(item, list | tuple | set | dict):
            if len(item) > MAX_SIZE:
                return False
            pending.extend(item)
            pending.extend(item.values() if isinstance(item, dict) else ())
        if size + len(pending) > MAX_SIZE or (isinstance(item, int) and item.bit_length() > MAX_BITS):
            return False
    return True


def _evaluate(module: Module, node: cst.BaseExpression, depth: int) -> Any:
    match node:
        case cst.Integer() | cst.Float() | cst.Imaginary() | cst.SimpleString() | cst.ConcatenatedString():
            return _literal_text(module, node, depth)
        case cst.FormattedString():
            return "".join(_formatted(module, part, depth) for part in node.parts)
        case cst.Name("True" | "False" | "None"):
            return {"True": True, "False": False, "None": None}[node.value]
        case cst.Name():
            return _name(module, node, depth)
        case cst.Attribute() if (member := constant(module, node)) is not None:
            return member
        case cst.Attribute(attr=cst.Name("major" | "minor")) if is_properties(module, node.value):
            return gpu_of_run(module).capability[node.attr.value == "minor"]
        case cst.Attribute(attr=cst.Name("type")) if is_device(module, node.value):
            return "cuda"
        case cst.Attribute(attr=cst.Name("type")) if (device := _device(module, node.value)) is not None:
            return str(evaluate(module, device, depth)).partition(":")[0]
        case cst.List():
            return [_element(module, element, depth) for element in node.elements]
        case cst.Tuple():
            return tuple(_element(module, element, depth) for element in node.elements)
        case cst.Set():
            return {_element(module, element, depth) for element in node.elements}
        case cst.Dict():
            return _dict(module, node, depth)
        case cst.UnaryOperation():
            return _unary(node, evaluate(module, node.expression, depth))
        case cst.BinaryOperation():
            return _binary(node, evaluate(module, node.left, depth), evaluate(module, node.right, depth))
        case cst.Comparison() if len(node.comparisons) == 1:
            part = node.comparisons[0]
            compare = COMPARISON.get(type(part.operator))
            if compare is None:
                raise Unknown
            if is_build(module, node.left) and module.code(part.comparator) == "None":
                return not compare(None, None)  # torch was built for CUDA
            return _calculate(compare, evaluate(module, node.left, depth), evaluate(module, part.comparator, depth))
        case cst.BooleanOperation():
            left = evaluate(module, node.left, depth)
            settled = not left if isinstance(node.operator, cst.And) else bool(left)
            return left if settled else evaluate(module, node.right, depth)
        case cst.IfExp():
            holds = is_build(module, node.test) or evaluate(module, node.test, depth)
            return evaluate(module, node.body if holds else node.orelse, depth)
        case cst.Subscript() if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            index = evaluate(module, node.slice[0].slice.value, depth)
            return _calculate(operator.getitem, evaluate(module, node.value, depth), index)
        case cst.Call(func=cst.Name("dict")) if module.scope(node).lookup("dict") is None:
            return _dict_call(module, node, depth)
        case cst.Call(func=cst.Name("getattr")) if (member := _looked_up(module, node)) is not None:
            return member
        case cst.Call() if (answer := seen_on_gpu(module, node)) is not None:
            if node.args and not may_be_told(module, node):
                raise Unknown
            return answer
        case cst.Call(func=cst.Name("int" | "float" | "str" | "bool" as builtin)):
            plain = len(node.args) == 1 and node.args[0].keyword is None and not node.args[0].star
            if plain and module.scope(node).lookup(builtin) is None:
                kinds = {"int": int, "float": float, "str": str, "bool": bool}
                argument = evaluate(module, node.args[0].value, depth)
                return _calculate(lambda kind, given: kind(given), kinds[builtin], argument)
        case cst.Call(func=cst.Attribute(attr=cst.Name("get")), args=[_, *_]) if asks_for_gpu(module, node):
            return _got(module, node, depth)
        case cst.Call() | cst.Attribute():
            return _held(module, node, depth)
    raise Unknown


def _held(module: Module, node: cst.BaseExpression, depth: int) -> Any:
    """What torch answered about a GPU, held by an attribute, a parameter or a function of the file."""
    found = [
        evaluate(module, value, depth) for value in held_answers(module, node, lambda t: evaluate(module, t, depth))
    ]
    if not found or any(type(other) is not type(found[0]) or other != found[0] for other in found):
        raise Unknown
    return found[0]


def _got(module: Module, node: cst.Call, depth: int) -> Any:
    """`TYPES.get(device, torch.float32)`."""
    assert isinstance(node.func, cst.Attribute)
    held = evaluate(module, node.func.value, depth)
    given = [evaluate(module, argument.value, depth) for argument in node.args]
    if not isinstance(held, dict) or any(argument.keyword or argument.star for argument in node.args):
        raise Unknown
    return _calculate(lambda _, __: held.get(*given), None, None)


def _looked_up(module: Module, node: cst.Call) -> str | None:
    """`getattr(torch, "bfloat16")` → `bfloat16`."""
    library = module.qualified(node.args[0].value) if len(node.args) == 2 else None
    if library is None or not any(name.startswith(f"{library}.") for name in constants(module)):
        return None
    try:
        return constants(module).get(f"{library}.{evaluate(module, node.args[1].value)}")
    except Unknown:
        return None


def _device(module: Module, node: cst.BaseExpression, depth: int = 0) -> cst.BaseExpression | None:
    """What `torch.device(...)` is given, itself or held by something."""
    call: cst.BaseExpression | None = node
    if isinstance(node, cst.Name):
        binding = module.single_binding(node) or last_given(module, node, lambda test: evaluate(module, test))
        if binding is not None and binding.kind == "parameter" and depth < MAX_DEPTH:
            devices = [_device(module, value, depth + 1) for value in given_to(module, binding) or ()]
            alike = {module.code(device) if device is not None else None for device in devices}
            return devices[0] if len(alike) == 1 else None
        call = binding.value if binding is not None and binding.kind == "assign" else node
    elif isinstance(node, cst.Attribute):
        call = held_value(module, node)
    return device_named(module, call)


def _literal_text(module: Module, node: cst.BaseExpression, depth: int) -> Any:
    if isinstance(node, cst.ConcatenatedString):
        return _evaluate(module, node.left, depth) + _evaluate(module, node.right, depth)
    try:
        return ast.literal_eval(node.value)  # type: ignore[attr-defined]
    except (ValueError, SyntaxError):
        raise Unknown from None


def _formatted(module: Module, part: cst.BaseFormattedStringContent, depth: int) -> str:
    if isinstance(part, cst.FormattedStringText):
        return part.value.replace("{{", "{").replace("}}", "}")
    if not isinstance(part, cst.FormattedStringExpression) or part.conversion or part.equal:
        raise Unknown
    spec = "".join(_formatted(module, piece, depth) for piece in part.format_spec or ())
    found = evaluate(module, part.expression, depth)
    if not isinstance(found, SIMPLE) or WIDE.search(spec):
        raise Unknown
    return str(_calculate(format, found, spec))


def _name(module: Module, node: cst.Name, depth: int) -> Any:
    binding = module.single_binding(node) or capability_binding(module, node)
    binding = binding or last_given(module, node, lambda test: evaluate(module, test, depth))
    if binding is None:
        return _repeated(module, node, depth)
    if binding.kind == "parameter":
        return _held(module, node, depth)
    if binding.kind not in ("assign", "unpack") or binding.value is None:
        raise Unknown
    if binding.kind == "unpack":
        return _unpacked(module, binding, depth)
    found = evaluate(module, binding.value, depth)
    if isinstance(found, list | dict | set) and changed_later(module, node):
        raise Unknown
    return found


def _repeated(module: Module, node: cst.Name, depth: int) -> Any:
    """What a name holds that is given the same value again, as cells of a notebook do: `dtype = None` in each."""
    found = module.meaning(node)
    bindings = found[1] if found is not None else []
    values = [binding.value for binding in bindings if binding.kind == "assign" and binding.value is not None]
    if not 1 < len(values) == len(bindings) <= MAX_REPEATED:
        raise Unknown
    first, *others = (evaluate(module, value, depth) for value in values)
    if not isinstance(first, SIMPLE) or any(type(other) is not type(first) or other != first for other in others):
        raise Unknown
    return first


def _unpacked(module: Module, binding: Binding, depth: int) -> Any:
    """What `dtype` is of `device, dtype = setup()`, whatever else is given back with it."""
    assert binding.value is not None
    try:
        return _part(evaluate(module, binding.value, depth), binding)
    except Unknown:
        given = [*held_answers(module, binding.value, lambda test: evaluate(module, test, depth))]
        parts = given[0].elements if len(given) == 1 and isinstance(given[0], cst.Tuple) else ()
        if binding.index is None or binding.index >= len(parts) or isinstance(parts[binding.index], cst.StarredElement):
            raise
        return evaluate(module, parts[binding.index].value, depth)


def _part(found: Any, binding: Binding) -> Any:
    """What `a` is of `a, b = found`."""
    targets = binding.node.targets if isinstance(binding.node, cst.Assign) else ()
    for target in targets:
        names = target.target.elements if isinstance(target.target, cst.Tuple | cst.List) else ()
        if any(isinstance(name, cst.StarredElement) for name in names) or not isinstance(found, tuple):
            break
        if binding.index is not None and len(names) == len(found) and len(targets) == 1:
            return found[binding.index]
    raise Unknown


def _element(module: Module, element: cst.BaseElement, depth: int) -> Any:
    if isinstance(element, cst.StarredElement):
        raise Unknown
    return evaluate(module, element.value, depth)


def _dict(module: Module, node: cst.Dict, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for element in node.elements:
        inner = evaluate(module, element.value, depth)
        if isinstance(element, cst.DictElement):
            found[evaluate(module, element.key, depth)] = inner
        elif isinstance(inner, dict):
            found.update(inner)
        else:
            raise Unknown
    return found


def _dict_call(module: Module, node: cst.Call, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for argument in node.args:
        inner = evaluate(module, argument.value, depth)
        if argument.keyword is not None:
            found[argument.keyword.value] = inner
        elif isinstance(inner, dict):
            found.update(inner)
        else:
            raise Unknown
    return found


def _unary(node: cst.UnaryOperation, operand: Any) -> Any:
    match node.operator:
        case cst.Minus():
            return _calculate(lambda a, _: -a, operand, None)
        case cst.Plus():
            return _calculate(lambda a, _: +a, operand, None)
        case cst.Not():
            return not operand
    raise Unknown


def _binary(node: cst.BinaryOperation, left: Any, right: Any) -> Any:
    calculate = BINARY.get(type(node.operator))
    if calculate is None:
        raise Unknown
    if isinstance(node.operator, cst.Multiply):
        for side, other in ((left, right), (right, left)):
            if isinstance(side, int) and isinstance(other, str | bytes | list | tuple):
                if side > 0 and side * len(other) > MAX_SIZE:
                    raise Unknown
    if isinstance(node.operator, cst.Power) and not (isinstance(right, int | float) and abs(right) <= 64):
        raise Unknown
    if isinstance(node.operator, cst.Modulo) and isinstance(left, str | bytes):
        if WIDE.search(left if isinstance(left, str) else left.decode("latin-1")):
            raise Unknown
    return _calculate(calculate, left, right)


def _calculate(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    try:
        return function(left, right)
    except Exception:
        raise Unknown from None
