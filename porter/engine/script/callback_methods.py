"""The callbacks that a file defines, and what their methods do with what transformers gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst

from ...source.indexes import text_index
from ...source.module import Module
from .flow import Variable
from .sites import facts_of
from .training import Training
from .where_values_go import Place, followed, handed_on

EVENTS = frozenset(
    """
    on_init_end on_train_begin on_train_end on_epoch_begin on_epoch_end on_step_begin on_step_end on_evaluate on_save
    on_log
    """.split()
)
TOKENIZER = ("processing_class", "tokenizer")


def reads_arguments(porting: Training) -> bool:
    """Whether a callback of the file reads the trainer's config, which it is given as `args`."""
    for method in _methods(porting):
        names = [parameter.name.value for parameter in method.params.params]
        if len(names) > 1 and _loads(porting.module, method, names[1]):
            return True
    return False


def reads_tokenizer(porting: Training) -> bool:
    """Whether a callback of the file uses the tokenizer that the trainer gives it."""
    module = porting.module
    return any(_given(module, method, name) for method in _given_methods(porting) for name in TOKENIZER)


def models_of_callbacks(porting: Training) -> list[Variable]:
    """Where callbacks of the file use the model that the trainer gives them, and whom they hand it to."""
    module = porting.module
    found: list[Variable] = []
    starts: list[Place | cst.Call] = []
    for method in _given_methods(porting):
        if any(parameter.name.value == "model" for parameter in parameters_of(method)):
            starts.append(Place("model", module.scopes[method]))
        for node in _given(module, method, "model"):
            if not isinstance(node, cst.Name):
                found.append(node)
                starts += handed_on(module, node)
    places, calls = followed(module, starts, placed=True)
    for place in places:
        found += module.references(place.variable, place.scope)
    return list(dict.fromkeys([*found, *calls]))


def _methods(porting: Training) -> Iterator[cst.FunctionDef]:
    """The events that callbacks of the file answer."""
    module = porting.module
    if not any(name.rpartition(".")[2] in module.text for name in facts_of(module).callbacks):
        return
    for definition in module.scopes:
        if isinstance(definition, cst.ClassDef) and is_callback(module, definition):
            for statement in definition.body.body:
                if isinstance(statement, cst.FunctionDef) and statement.name.value in EVENTS:
                    yield statement


def _given_methods(porting: Training) -> list[cst.FunctionDef]:
    """The events, and the functions of the file that an event hands its `**kwargs` on to as its own."""
    module = porting.module
    found = [*_methods(porting)]
    for method in found:
        rest = method.params.star_kwarg
        for use in _loads(module, method, rest.name.value) if rest is not None else ():
            spread = module.parents[use]
            call = module.parents[spread]
            if isinstance(spread, cst.Arg) and spread.star == "**" and isinstance(call, cst.Call):
                callee = module.callees.get(call)
                found += [callee] if callee is not None and callee not in found else []
    return found


def is_callback(module: Module, definition: cst.ClassDef) -> bool:
    return any(module.qualified(base.value) in facts_of(module).callbacks for base in definition.bases)


def in_callback(module: Module, node: cst.CSTNode) -> bool:
    """Whether code stands in a callback of the file."""
    return any(isinstance(item, cst.ClassDef) and is_callback(module, item) for item in module.ancestors(node))


def parameters_of(method: cst.FunctionDef) -> list[cst.Param]:
    return [*method.params.params, *method.params.kwonly_params, *method.params.posonly_params]


def _loads(module: Module, method: cst.FunctionDef, name: str) -> list[cst.Name]:
    scope = module.scopes[method]
    return [use for use in module.references(name, scope) if isinstance(use, cst.Name)]


def _given(module: Module, method: cst.FunctionDef, name: str) -> list[Variable]:
    """Where a method reads one of the things it is given: by its parameter, `kwargs[name]`, `kwargs.get(name)`."""
    found: list[Variable] = []
    if any(parameter.name.value == name for parameter in parameters_of(method)):
        found += _loads(module, method, name)
    return [*found, *(node for node, key in rest_reads(module, method) if key == name)]


def rest_reads(module: Module, method: cst.FunctionDef) -> Iterator[tuple[cst.Subscript | cst.Call, str]]:
    """What is read of a method's `**kwargs`, with the key: `kwargs[key]`, `kwargs.get(key)`, `kwargs.pop(key)`.

    By the method itself, and by functions of the file that it hands them to.
    """
    rest = method.params.star_kwarg
    if rest is None:
        return
    places, _ = followed(module, [Place(rest.name.value, module.scopes[method])], placed=False)
    for use in (use for place in places for use in module.references(place.variable, place.scope)):
        around = module.parents[use]
        call = module.parents[around]
        if isinstance(around, cst.Subscript):
            if (key := text_index(around)) is not None:
                yield around, key
        elif is_get(call) and isinstance(call.args[0].value, cst.SimpleString):
            yield call, str(call.args[0].value.evaluated_value)


def is_get(node: cst.CSTNode) -> TypeGuard[cst.Call]:
    """`kwargs.get(...)`, `kwargs.pop(...)`."""
    called = node.func if isinstance(node, cst.Call) and node.args else None
    return isinstance(called, cst.Attribute) and called.attr.value in ("get", "pop")
