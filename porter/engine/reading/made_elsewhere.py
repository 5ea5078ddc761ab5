"""Settings that a script takes from files that aren't ported with it.

    from configs import make_config
    trainer = SFTTrainer(model, args=make_config(), ...)

In the port that is TRL's own object, made by a module that imports TRL. A folder as input is followed through its
modules; what lies outside of it is said, and so is what a script takes from its project when it is ported alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from ...source.merged import Merged
from ...source.module import Module
from ...source.project.modules import LIBRARIES, find_project_file, project_file
from ..packs.said_by_packs import owner_of
from ..script.fill_from_tables import argument_at, bindings_of, short_name, table_of, tables_by_class
from ..script.flow import origins
from ..script.sites import Argument, Site
from ..script.subclasses import class_of, imported_base
from ..script.training import Training
from ..steps.step import Phase, step

DEEPEST = 12  # values that lead to one another
BY_NAME = "hydra.utils.instantiate"  # of a class that a file names
COPIES = ("copy.copy", "copy.deepcopy", "dataclasses.replace")


@dataclass(frozen=True)
class Elsewhere:
    """Where a value comes from: the imported `name` of what makes it, or the function whose parameter it is."""

    name: str = ""
    function: str = ""


@step(
    Phase.READ,
    of="trainer",
    reads=("config", "arguments_object", "model", "model.quantization", "lora", "lora_object", "inject"),
)
def say_elsewhere(porting: Training) -> None:
    """Name a trainer's arguments, its adapters' and its base's config where another file, or a library, makes them."""
    site = porting.trainer
    assert site is not None
    if porting.arguments_object and porting.config is None:
        _say(porting, site.argument("args"), site, "arguments")
    if porting.lora_object not in ("", "None") and porting.lora is None:
        holder = porting.inject or site
        _say(porting, argument_at(porting, holder, "lora.config"), holder, "lora")
    held = porting.value("model.quantization")
    if porting.model is not None and held is not None and not held.known:
        argument = porting.model.argument("quantization_config")
        _say(porting, argument, porting.model, "quantization")


def _say(porting: Training, argument: Argument | None, site: Site, role: str) -> None:
    if argument is None or argument.node is None:
        return
    found = _origin(porting, argument.node)
    made = {site.node for site in porting.sites if site.role == role}
    if found is None or any(node in made for node in origins(porting.module, argument.node)):
        return
    library = _owner(porting, role)
    said = f"{short_name(site)}.{argument.name}={argument.text}"
    folder = "Port the project's folder (tpu-port DIR -o OUT), where it is followed, or make it here."
    here = "Make it here, or of the classes of porter.runtime.arguments."
    file = project_file(porting.module.path, found.name) if found.name else ""
    alone = not isinstance(porting.module, Merged)
    if found.function:
        message = f"{said}: {found.function}() is given it by another file, as {library} own object."
    elif file and alone:
        message = f"{said}: it comes from {file}, which isn't ported with this file, as {library} own object."
    else:
        message = f"{said}: it comes from {found.name.lstrip('.')}, which can't be followed, as {library} own object."
    fix = folder if alone and (file or found.function) else here
    porting.change_fate(f".{argument.name}", fate="manual", target="", reason=f"made elsewhere as {library} own")
    porting.find(site.rule, "error", message, fix, argument.line, argument.column)


def _owner(porting: Training, role: str) -> str:
    """Whose the classes of a role are, "TRL's"."""
    tables = [table for pack in porting.packs for table in pack.tables if table.role == role and pack.built_in]
    config = table_of(porting, porting.trainer).config if porting.trainer is not None else ""
    name = config if role == "arguments" and config else tables[0].names[0]
    return owner_of(porting.packs, name.partition(".")[0])


def _origin(porting: Training, node: cst.BaseExpression | None, depth: int = 0) -> Elsewhere | None:
    """Where a value comes from when that isn't this file; None where it is, or where that can't be told."""
    module = porting.module
    if node is None or depth > DEEPEST:
        return None
    chain = [*origins(module, node)]
    node = chain[-1] if chain else node
    name = module.qualified(node.func if isinstance(node, cst.Call) else node)
    if name is not None and name not in COPIES:
        return _of_import(porting, node, name)
    match node:
        case cst.Call() if name is not None:
            return _origin(porting, node.args[0].value, depth + 1) if node.args else None
        case cst.Call(func=cst.Attribute(value=held)) if module.callees.get(node) is None:
            return _of_parser(porting, held, None) or _origin(porting, held, depth + 1)
        case cst.Subscript(value=cst.Call(func=cst.Attribute(value=held)), slice=[part]):
            index = part.slice.value if isinstance(part.slice, cst.Index) else None
            return _of_parser(porting, held, int(index.value) if isinstance(index, cst.Integer) else None)
        case cst.Attribute(value=held) | cst.Subscript(value=held) if module.meaning(node) is None:
            return _origin(porting, held, depth + 1)
    bindings = bindings_of(module, node)
    if len(bindings) != 1:
        return None
    binding = bindings[0]
    if binding.kind == "unpack" and isinstance(binding.value, cst.Call):
        if isinstance(binding.value.func, cst.Attribute):
            return _of_parser(porting, binding.value.func.value, binding.index)
        made = module.qualified(binding.value.func)
        return _of_import(porting, binding.value, made) if made is not None else None
    if binding.kind == "parameter" and isinstance(binding.node, cst.Param):
        function = _uncalled(module, binding.node)
        if function and binding.node.default is not None:
            return _origin(porting, binding.node.default, depth + 1)
        return Elsewhere(function=function) if function else None
    return None


def _of_import(porting: Training, node: cst.BaseExpression, name: str) -> Elsewhere | None:
    """An imported object, or what an imported function gives: a library's is what it was told of."""
    if name in tables_by_class(porting.packs):
        return None
    file = find_project_file(porting.module.path, name)
    if file is not None and isinstance(porting.module, Merged):
        ported = {Path(part.module.path).absolute() for part in porting.module.parts}
        return Elsewhere(name) if file[0] not in ported else None
    if name.startswith(".") or file is not None or name == BY_NAME:
        return Elsewhere(name)
    # A library's call gives back what it is told of: a parser its classes, a loader what a file says.
    if name.partition(".")[0] in LIBRARIES or (isinstance(node, cst.Call) and _classes(porting, node)):
        return None
    return Elsewhere(name)


def _of_parser(porting: Training, parser: cst.BaseExpression, index: int | None) -> Elsewhere | None:
    """What a parser gives, `HfArgumentParser((A, B)).parse_args_into_dataclasses()`: objects of its classes."""
    made = next((node for node in origins(porting.module, parser) if isinstance(node, cst.Call)), None)
    if made is None:
        return None
    classes = _classes(porting, made)
    chosen = classes[index] if index is not None and index < len(classes) else classes[0] if len(classes) == 1 else None
    base = imported_base(porting.module, chosen) if chosen is not None else None
    name = porting.module.qualified(base) if base is not None else None
    return _of_import(porting, base, name) if base is not None and name is not None else None


def _classes(porting: Training, call: cst.Call) -> list[cst.BaseExpression]:
    """The classes that a call is given, alone or in a tuple or list."""
    module, given = porting.module, list[cst.BaseExpression]()
    for argument in call.args:
        several = argument.value
        given += (
            [element.value for element in several.elements] if isinstance(several, cst.Tuple | cst.List) else [several]
        )
    return [node for node in given if class_of(module, node) or _is_class(module.qualified(node) or "")]


def _is_class(name: str) -> bool:
    return name.rpartition(".")[2][:1].isupper()


def _uncalled(module: Module, parameter: cst.Param) -> str:
    """The function that a parameter belongs to, where nothing of the file calls it, hands it on or decorates it."""
    function = next((node for node in module.ancestors(parameter) if isinstance(node, cst.FunctionDef)), None)
    if function is None or function.decorators:
        return ""
    scope = module.scope(function)
    name, place = function.name.value, scope
    if isinstance(scope.node, cst.ClassDef):
        if scope.parent is None or (name != "__init__" and module.text.count(f".{name}(")):
            return ""
        name, place = scope.node.name.value, scope.parent
    return "" if module.references(name, place) else function.name.value
