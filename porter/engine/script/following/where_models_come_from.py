"""By which calls of the file a model comes to be, for findings on one that the port can't follow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from ....source.calls import calls_of
from ....source.merged import Merged
from ....source.module import Module
from ....source.project.modules import find_project_file, project_file
from ....source.scopes import Binding
from ..fill_from_tables import bindings_of
from ..flow import binding_origins, is_same, origins
from ..sites import Argument, facts_of
from ..training import Training

LOADS = re.compile(r"\w+\.\w*(?:Model|ForCausalLM|ConditionalGeneration)\w*\.from_pretrained")
GIVES_BACK = ("items", "values", "enumerate", "list", "tuple", "sorted", "reversed", "zip")
ADDS = ("append", "insert", "setdefault")
DEEPEST = 4  # names that lead to one another
WHERE_FROM = "where the model comes from"  # the key of what `where_from` says


def makers(porting: Training, model: Argument) -> list[str]:
    """The calls that a variable may hold the model of: `PeftModel.from_pretrained`, `get_peft_model`; each once.

    None of a model that is made once, or that one of them gets from a place that the file doesn't show.
    """
    module = porting.module
    found: list[str] = []
    bindings = bindings_of(module, model.node)
    if len(bindings) == 1 and not bindings[0].conditional:
        return []
    for binding in bindings:
        if _is_handed_in(module, binding):
            return []
        for node in binding_origins(module, binding):
            name = module.qualified(node.func) if isinstance(node, cst.Call) else None
            if name is not None and _is_of_models(module, name):
                short = name.split(".", 1)[1]
                found += [short] if short not in found else []
                break
    return found


def is_from_scratch(porting: Training, value: cst.BaseExpression | None) -> bool:
    """Whether a value is `AutoModelForCausalLM.from_config(...)`."""
    name = porting.module.qualified(value.func) if isinstance(value, cst.Call) else None
    return name is not None and _is_of_models(porting.module, name) and name.endswith("ForCausalLM.from_config")


def _is_of_models(module: Module, name: str) -> bool:
    return name.partition(".")[0] in facts_of(module).model_libraries


def _is_handed_in(module: Module, binding: Binding) -> bool:
    """Whether what a binding gives comes from elsewhere: a parameter that no call of the file fills, another module."""
    if binding.kind == "parameter":
        function = next((node for node in module.ancestors(binding.node) if isinstance(node, cst.FunctionDef)), None)
        return function is None or not calls_of(module, function)
    name = module.qualified(binding.value.func) if isinstance(binding.value, cst.Call) else None
    return name is not None and project_file(module.path, name) is not None


def _elsewhere(porting: Training, model: Argument) -> str:
    """The file of the project beside this one whose function makes the model, where it isn't ported with this one."""
    module = porting.module
    if isinstance(module, Merged):
        return ""
    values = [model.node, *(binding.value for binding in bindings_of(module, model.node))]
    for value in values:
        name = module.qualified(value.func) if isinstance(value, cst.Call) else None
        if name is not None and (file := project_file(module.path, name)):
            return file
    return ""


def left_file(module: Module, name: str) -> str:
    """The file of the project that an import means, where it isn't read with this one, and so stays; "" for none."""
    found = find_project_file(module.path, name)
    parts = module.parts if isinstance(module, Merged) else ()
    if found is None or found[0].absolute() in {Path(part.module.path).absolute() for part in parts}:
        return ""
    return found[1]


def where_from(porting: Training, model: Argument) -> tuple[str, str]:
    """What is wrong with where a model comes from, and what to do."""
    made = makers(porting, model)
    if isinstance(model.node, cst.Name) and not bindings_of(porting.module, model.node):
        message = f"{model.text}: nothing that is read here makes it: a cell that is no Python, or another file."
        return message, f"Make {model.text} with rt.load_model and the mesh."
    if not made and (load := _by_some_class(porting.module, model)) is not None:
        message = f"{model.text}: {porting.module.code(load.func)} loads it, and which class that is the run decides."
        return message, f"Load {model.text} with rt.load_model, which knows the class by its config.json."
    if not made:
        message = f"{model.text}: where this model comes from is not a from_pretrained call in this file."
        elsewhere = _elsewhere(porting, model)
        if elsewhere:
            return message, f"It is made in {elsewhere}: port the project's folder, where it is followed."
        return message, f"Make {model.text} with rt.load_model and the mesh."
    by = " or ".join(made)
    return (
        f"{model.text} is made by {by} in one branch, otherwise in another: which is decided when the script runs.",
        f"Load {model.text} with rt.load_model in each; rt.apply_peft and rt.apply_adapter put adapters in.",
    )


def _by_some_class(module: Module, model: Argument) -> cst.Call | None:
    """A call of `from_pretrained` of a class that several lines may have chosen, which makes the model."""
    for value in origins(module, model.node):
        func = value.func if isinstance(value, cst.Call) else None
        if isinstance(value, cst.Call) and isinstance(func, cst.Attribute) and func.attr.value == "from_pretrained":
            if module.qualified(func) is None:
                return value
    return None


def store_of(module: Module, node: cst.BaseExpression | None, depth: int = 0) -> str:
    """The code of the container that `node` is taken from, where a model that a library loads is put into it."""
    if node is None or depth > DEEPEST:
        return ""
    match node:
        case cst.Subscript():
            return module.code(node.value) if _holds_model(module, node.value) else ""
        case cst.IfExp():
            sides: tuple[cst.BaseExpression, ...] = (node.body, node.orelse)
        case cst.BooleanOperation():
            sides = (node.left, node.right)
        case cst.Name() | cst.Attribute():
            return next(
                (found for item in bindings_of(module, node) if (found := _store_of_binding(module, item, depth))), ""
            )
        case _:
            return ""
    return next((found for side in sides if (found := store_of(module, side, depth + 1))), "")


def _store_of_binding(module: Module, binding: Binding, depth: int) -> str:
    if binding.kind == "assign" and binding.index is None:
        return store_of(module, binding.value, depth + 1)
    loop = binding.node if isinstance(binding.node, cst.For | cst.CompFor) else None
    gone_through = loop.iter if loop is not None else None
    while isinstance(gone_through, cst.Call):
        called = gone_through.func
        name = called.attr.value if isinstance(called, cst.Attribute) else module.code(called)
        if name not in GIVES_BACK:
            return ""
        inner = gone_through.args[0].value if gone_through.args else None
        gone_through = called.value if isinstance(called, cst.Attribute) else inner
    return module.code(gone_through) if gone_through is not None and _holds_model(module, gone_through) else ""


def _holds_model(module: Module, container: cst.BaseExpression) -> bool:
    return any(_is_loaded(module, value) for value in _put_in(module, container))


def _put_in(module: Module, container: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the script puts into a dictionary or a list, where it is made and later."""
    for binding in bindings_of(module, container):
        if isinstance(binding.value, cst.Dict):
            yield from (item.value for item in binding.value.elements if isinstance(item, cst.DictElement))
        elif isinstance(binding.value, cst.List | cst.Tuple):
            yield from (item.value for item in binding.value.elements)
        elif isinstance(binding.value, cst.DictComp):
            yield binding.value.value
        elif isinstance(binding.value, cst.ListComp):
            yield binding.value.elt
    for node in module.parents:
        if isinstance(node, cst.Assign):
            target = node.targets[0].target
            if isinstance(target, cst.Subscript) and is_same(module, target.value, container):
                yield node.value
    for call in module.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ADDS and call.args:
            if is_same(module, call.func.value, container):
                yield call.args[-1].value


def _is_loaded(module: Module, value: cst.BaseExpression) -> bool:
    """Whether a value may be a model that a library loads."""
    made = [*origins(module, value)]
    for binding in bindings_of(module, value):
        made += binding_origins(module, binding)
    names = (module.qualified(each.func) for each in made if isinstance(each, cst.Call))
    return any(name is not None and LOADS.fullmatch(name) and _is_of_models(module, name) for name in names)
