"""What an installed release takes, as a script asks it: the class whose parameters an expression lists.

accepted = set(inspect.signature(SFTTrainer.__init__).parameters)
kwargs = {key: value for key, value in kwargs.items() if key in accepted}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from ....releases.history import LIBRARIES, history
from ....source.calls import argument_of, returned
from ....source.module import Module
from ....source.scopes import Binding
from ....source.values import Unknown, evaluate
from ...script.fill_from_tables import plain_version

WRAPS = ("set", "list", "tuple", "dict", "sorted", "frozenset")
MEMBERS = ("parameters", "args", "__code__", "co_varnames", "__init__", "__dataclass_fields__", "kwonlyargs")
LOOKS = ("signature", "getfullargspec", "fields")
MAX_DEPTH = 8


def kept_by_release(
    module: Module, versions: Mapping[str, str]
) -> Iterator[tuple[cst.BaseExpression, tuple[cst.BaseExpression, Callable[[str], bool | None]]]]:
    """Every expression that leaves of a dictionary what a class takes: the dictionary, and which keys it keeps.

    A comprehension, or the call of a function that returns one of its parameters so.
    """
    for node in module.parents:
        if isinstance(node, cst.DictComp):
            kept = _kept(module, node)
            name = asked_class(module, kept[1]) if kept is not None else None
            if kept is not None and name is not None:
                yield node, (kept[0], _taker(versions, name))
        elif isinstance(node, cst.Call) and (function := module.callees.get(node)) is not None:
            given = _kept_by_function(module, node, function)
            if given is not None:
                yield node, (given[0], _taker(versions, given[1]))


def _kept(module: Module, node: cst.DictComp) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`kwargs` and `accepted` of `{k: v for k, v in kwargs.items() if k in accepted}`."""
    loop, given = node.for_in, node.for_in.iter
    names = [module.code(each.value) for each in loop.target.elements] if isinstance(loop.target, cst.Tuple) else []
    if names != [module.code(node.key), module.code(node.value)] or loop.inner_for_in is not None:
        return None
    if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute) or given.args:
        return None
    test = loop.ifs[0].test if len(loop.ifs) == 1 else None
    if given.func.attr.value != "items" or not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    part = test.comparisons[0]
    if not isinstance(part.operator, cst.In) or module.code(test.left) != names[0]:
        return None
    return given.func.value, part.comparator


def _kept_by_function(
    module: Module, call: cst.Call, function: cst.FunctionDef
) -> tuple[cst.BaseExpression, str] | None:
    """What a call gives the function that returns it filtered, and the class; `except` may return it as it is."""
    values = [_held(module, value) for value in returned(module, function)]
    found = [_kept(module, value) if isinstance(value, cst.DictComp) else None for value in values]
    filters = [each for each in found if each is not None]
    if len(filters) != 1:
        return None
    base, accepted = filters[0]
    others = [value for value, filtered in zip(values, found, strict=True) if filtered is None]
    if not isinstance(base, cst.Name) or any(module.code(value) != base.value for value in others):
        return None
    names = {parameter.name.value for parameter in function.params.params}
    asked, parameter = asked_class(module, accepted), _asked_parameter(module, accepted)
    if asked is None and parameter in names:
        given = argument_of(module, call, parameter)
        asked = _class(module, given) if given is not None else None
    given = argument_of(module, call, base.value) if base.value in names else None
    return (given, asked) if given is not None and asked is not None else None


def _held(module: Module, value: cst.BaseExpression) -> cst.BaseExpression:
    """`{...}` of `found`, the one name that holds it."""
    binding = _only_binding(module, value)
    return binding.value if binding is not None and isinstance(binding.value, cst.DictComp) else value


def _only_binding(module: Module, node: cst.BaseExpression) -> Binding | None:
    """What gives a name its value, also in a `try`."""
    found = module.meaning(node) if isinstance(node, cst.Name) else None
    return found[1][0] if found is not None and len(found[1]) == 1 else None


def _asked_parameter(module: Module, node: cst.BaseExpression) -> str | None:
    """The parameter of a function whose class an expression asks: `cls` of `inspect.signature(cls.__init__)`."""
    found = _looked_at(module, node)
    if isinstance(found, cst.Attribute) and found.attr.value == "__init__":
        found = found.value
    return found.value if isinstance(found, cst.Name) else None


def _taker(versions: Mapping[str, str], name: str) -> Callable[[str], bool | None]:
    return lambda keyword: _takes_word(versions, keyword, name)


def takes(module: Module, versions: Mapping[str, str], word: cst.BaseExpression, name: str | None) -> bool | None:
    """Whether a class takes a keyword in its release; None where that isn't known."""
    try:
        keyword = evaluate(module, word) if name is not None else None
    except Unknown:
        return None
    return _takes_word(versions, keyword, name or "") if isinstance(keyword, str) else None


def _takes_word(versions: Mapping[str, str], keyword: str, name: str) -> bool | None:
    library, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    if library not in LIBRARIES or library not in versions or last not in history().record(library).data["calls"]:
        return None
    others = {one: plain_version(said) for one, said in versions.items() if one in LIBRARIES}
    version = others.pop(library)
    return history().takes(library, version, last, keyword, **others)


def asked_class(module: Module, node: cst.BaseExpression) -> str | None:
    """The class whose parameters an expression lists: `set(inspect.signature(SFTTrainer.__init__).parameters)`."""
    found = _looked_at(module, node)
    return _class(module, found) if found is not None else None


def _looked_at(module: Module, node: cst.BaseExpression, depth: int = 0) -> cst.BaseExpression | None:
    """What is asked for its parameters."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, cst.SetComp | cst.ListComp | cst.GeneratorExp) and not node.for_in.ifs:
        named = module.code(node.elt) in (module.code(node.for_in.target), f"{module.code(node.for_in.target)}.name")
        return _looked_at(module, node.for_in.iter, depth + 1) if named else None
    if isinstance(node, cst.Call):
        called = module.code(node.func).rsplit(".", 1)[-1]
        if called in LOOKS and node.args:
            return node.args[0].value
        if called in WRAPS and len(node.args) == 1:
            return _looked_at(module, node.args[0].value, depth + 1)
        if called == "keys" and isinstance(node.func, cst.Attribute):
            return _looked_at(module, node.func.value, depth + 1)
        return None
    if isinstance(node, cst.Attribute) and node.attr.value in MEMBERS:
        if node.attr.value in ("__dataclass_fields__", "__code__"):
            return node.value
        return _looked_at(module, node.value, depth + 1)
    binding = _only_binding(module, node)
    if binding is None or binding.kind != "assign" or binding.value is None:
        return None
    return _looked_at(module, binding.value, depth + 1)


def _class(module: Module, node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.Attribute) and node.attr.value == "__init__":
        node = node.value
    return module.qualified(node)
