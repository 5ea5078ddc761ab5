"""What stands in the dicts that `generate(**settings)` is given: made in branches, filled, merged, given by a function.

A dict that is made once is read as keywords of the call; these, and a GenerationConfig, are read for what ends the call
when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Module, Unknown, argument_of, calls_of, evaluate, index_of, reaching, returned

Setting = tuple[str, cst.BaseExpression]
DEEPEST = 8  # names, parameters and functions that lead to one another
CONFIG = "transformers.GenerationConfig"
FILLS = ("update", "setdefault")


def settings_in(porting: Porting, call: cst.Call) -> Iterator[Setting]:
    """The name and the value of each setting that may stand in what a call is given as `**settings`, or in its
    `generation_config`."""
    module, seen = porting.module, set[cst.CSTNode]()
    for argument in call.args:
        given = [(argument.keyword.value, argument.value)] if argument.keyword is not None else []
        for name, value in _held(module, argument.value, DEEPEST) if argument.star == "**" else given:
            of_config = list(_configured(module, value, DEEPEST)) if name == "generation_config" else []
            for setting in of_config if argument.star != "**" else [(name, value), *of_config]:
                if setting[1] not in seen:
                    seen.add(setting[1])
                    yield setting


def _configured(module: Module, node: cst.BaseExpression, depth: int) -> Iterator[Setting]:
    """What a GenerationConfig is made with, by variables."""
    if isinstance(node, cst.Call) and module.qualified(node.func) == CONFIG:
        for argument in node.args:
            if argument.keyword is not None:
                yield argument.keyword.value, argument.value
            elif argument.star == "**":
                yield from _held(module, argument.value, depth - 1)
    for binding in reaching(module, node) if isinstance(node, cst.Name) and depth > 0 else ():
        if binding.kind == "assign" and isinstance(binding.value, cst.BaseExpression):
            yield from _configured(module, binding.value, depth - 1)


def _held(module: Module, node: cst.BaseExpression, depth: int) -> Iterator[Setting]:
    if depth < 0:
        return
    if isinstance(node, cst.Dict):
        for item in node.elements:
            if isinstance(item, cst.StarredDictElement):
                yield from _held(module, item.value, depth - 1)
            elif isinstance(item, cst.DictElement) and (name := _text(module, item.key)):
                yield name, item.value
    elif isinstance(node, cst.IfExp):
        yield from _held(module, node.body, depth - 1)
        yield from _held(module, node.orelse, depth - 1)
    elif isinstance(node, cst.BinaryOperation | cst.BooleanOperation):
        yield from _held(module, node.left, depth - 1)
        yield from _held(module, node.right, depth - 1)
    elif isinstance(node, cst.Call):
        yield from _given_back(module, node, depth)
    elif isinstance(node, cst.Name | cst.Attribute):
        for binding in reaching(module, node):
            if binding.kind == "assign" and isinstance(binding.value, cst.BaseExpression):
                yield from _held(module, binding.value, depth - 1)
            elif binding.kind == "parameter" and isinstance(binding.node, cst.Param):
                yield from _given(module, binding.node, depth)
        yield from _filled(module, node, depth)


def _given_back(module: Module, call: cst.Call, depth: int) -> Iterator[Setting]:
    """What a call makes: `dict(base, top_k=4)`, `settings.copy()`, or what a function of the script gives back."""
    func = call.func
    if isinstance(func, cst.Name) and func.value == "dict":
        for argument in call.args:
            if argument.keyword is not None:
                yield argument.keyword.value, argument.value
            else:
                yield from _held(module, argument.value, depth - 1)
        return
    if isinstance(func, cst.Attribute) and func.attr.value == "copy":
        yield from _held(module, func.value, depth - 1)
    function = module.callees.get(call)
    for value in returned(module, function) if function is not None else ():
        yield from _held(module, value, depth - 1)


def _given(module: Module, parameter: cst.Param, depth: int) -> Iterator[Setting]:
    """What the calls of a function give for a parameter; of `**kwargs` all keywords that it doesn't name."""
    function = next((node for node in module.ancestors(parameter) if isinstance(node, cst.FunctionDef)), None)
    if function is None:
        return
    rest = function.params.star_kwarg is parameter
    own = {each.name.value for each in (*function.params.params, *function.params.kwonly_params)}
    for call in calls_of(module, function):
        if not rest:
            given = argument_of(module, call, parameter.name.value)
            if given is not None:
                yield from _held(module, given, depth - 1)
            continue
        for argument in call.args:
            if argument.star == "**":
                yield from _held(module, argument.value, depth - 1)
            elif argument.keyword is not None and argument.keyword.value not in own:
                yield argument.keyword.value, argument.value


def _filled(module: Module, name: cst.BaseExpression, depth: int) -> Iterator[Setting]:
    """What is set in a dict after it is made: `settings["top_k"] = 4`, `settings.update(top_k=4)`."""
    found = module.meaning(name)
    if found is None or not isinstance(name, cst.Name):
        return
    for use in module.references(name.value, found[0]):
        parent = module.parents[use]
        if module.span(use)[0] > module.span(name)[0] and not module.loops(use):
            continue
        if isinstance(parent, cst.Subscript) and parent.value is use:
            target = module.parents[parent]
            statement = module.parents.get(target)
            index = index_of(parent)
            if isinstance(target, cst.AssignTarget) and isinstance(statement, cst.Assign) and index is not None:
                if key := _text(module, index):
                    yield key, statement.value
        elif isinstance(parent, cst.Attribute) and parent.value is use and parent.attr.value in FILLS:
            call = module.parents[parent]
            if not isinstance(call, cst.Call) or call.func is not parent:
                continue
            if parent.attr.value == "setdefault" and len(call.args) == 2 and (key := _text(module, call.args[0].value)):
                yield key, call.args[1].value
            for argument in call.args if parent.attr.value == "update" else ():
                if argument.keyword is not None:
                    yield argument.keyword.value, argument.value
                else:
                    yield from _held(module, argument.value, depth - 1)


def _text(module: Module, node: cst.BaseExpression) -> str:
    try:
        value = evaluate(module, node)
    except Unknown:
        return ""
    return value if isinstance(value, str) else ""
