"""By which calls of the file a model comes to be, for findings on one that the port can't follow."""

from __future__ import annotations

import libcst as cst

from ...source.calls import calls_of
from ...source.merged import Merged
from ...source.module import Module
from ...source.project.modules import project_file
from ...source.scopes import Binding
from .fill_from_tables import bindings_of
from .flow import binding_origins
from .sites import Argument
from .training import Training

LIBRARIES = ("peft.", "transformers.", "unsloth.")
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
            if name is not None and name.startswith(LIBRARIES):
                short = name.split(".", 1)[1]
                found += [short] if short not in found else []
                break
    return found


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


def where_from(porting: Training, model: Argument) -> tuple[str, str]:
    """What is wrong with where a model comes from, and what to do."""
    made = makers(porting, model)
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
