"""What asks NVIDIA's driver: packages of NVML (`pynvml`, `GPUtil`) and the command nvidia-smi, left in the port.

What it does: what only tells of the GPU goes (TP513), with a star import that nothing uses any more. An import that
only functions need to which the script doesn't come goes into these. What is left of such a package, and calls of
nvidia-smi that raise without it, are named, where the port comes to them.
Why: a TPU machine has neither the driver nor its command, so that the port would end there, installed or not.
Example: `used = pynvml.nvmlDeviceGetMemoryInfo(handle).used`
Use instead: `tpu-port plan` for the memory, JAX's profiler for what a run takes, `tpu-info` for what chips do.
"""

from __future__ import annotations

import libcst as cst

from porter.packs.api import Phase, Porting, step
from porter.packs.script import Module, function_around

from ..gpus._drivers import driver_imports, ends_without_command, is_asked_first, is_of_star, names_driver
from ._reached import is_reached

ID = "TP539"
FIX = "Take it out, or put it into a `try` that says what holds without a GPU; `tpu-info` shows what TPU chips do."


@step(Phase.NAME, reads=("gpu tests",), anywhere=True)
def name_drivers_left(porting: Porting) -> None:
    """An error for every import of such a package that stays and every call of nvidia-smi that ends the port."""
    module = porting.module
    if not names_driver(module):
        return
    for node in [*driver_imports(module)]:
        if is_asked_first(porting, node) or not is_reached(porting, node):
            continue
        if not _is_needed(porting, node):
            if isinstance(node.names, cst.ImportStar):
                porting.remove_statement(node, ID, "a TPU machine has no such driver")
            continue
        if _only_where_not_reached(porting, node):
            continue
        shown = " ".join(module.code(node).split())
        message = f"{shown}: it asks NVIDIA's driver, which a TPU machine doesn't have: the port ends here."
        porting.find(ID, "error", message, FIX, *module.location(node))
    for call in module.calls:
        if porting.covered(module.span(call)[0]) or not ends_without_command(module, call):
            continue
        if not is_asked_first(porting, call) and is_reached(porting, call):
            message = "nvidia-smi: a TPU machine has no such command: the port ends here."
            porting.find(ID, "error", message, FIX, *module.location(call))


def _only_where_not_reached(porting: Porting, node: cst.Import | cst.ImportFrom) -> bool:
    """Whether all that a file's import brings is used in functions to which the script doesn't come: it stands in
    these then."""
    module = porting.module
    if isinstance(node.names, cst.ImportStar) or not isinstance(module.parents[module.parents[node]], cst.Module):
        return False
    around = {use: function_around(module, use) for use in _uses(porting, node)}
    functions = dict.fromkeys(function for function in around.values() if function is not None)
    if len(set(around.values())) > len(functions) or not all(_is_apart(porting, each) for each in functions):
        return False
    for function in functions:
        used = {use.value for use, inside in around.items() if inside is function and isinstance(use, cst.Name)}
        names = [alias for alias in node.names if _bound(module, alias) in used]
        listed = ", ".join(module.code(alias).rstrip(", ") for alias in names)
        home = f"from {module.code(node.module)} " if isinstance(node, cst.ImportFrom) and node.module else ""
        first = _first_statement(function)
        start = module.span(first)[0]
        line_start = module.text.rfind("\n", 0, start) + 1
        text = f"{home}import {listed}\n{module.text[line_start:start]}"
        porting.edit(start, start, text, ID, "imported where it is used: the script doesn't come there")
    porting.remove_statement(node, ID, "a TPU machine has no such driver: the import goes where it is used")
    return True


def _is_apart(porting: Porting, function: cst.FunctionDef) -> bool:
    """Whether neither the script comes to a function of a file, nor another file that is known."""
    if porting.options.imported & {function.name.value, "*"} or not isinstance(function.body, cst.IndentedBlock):
        return False
    at_top = isinstance(porting.module.scope(function).node, cst.Module)
    return at_top and not is_reached(porting, _first_statement(function))


def _first_statement(function: cst.FunctionDef) -> cst.BaseStatement:
    """The first statement behind the docstring, or the docstring where there is no other."""
    body = [each for each in function.body.body if isinstance(each, cst.BaseStatement)]
    is_text = function.get_docstring() is not None and len(body) > 1
    return body[1] if is_text else body[0]


def _bound(module: Module, alias: cst.ImportAlias) -> str:
    """The name that an import binds."""
    return module.code(alias.asname.name if alias.asname else alias.name).partition(".")[0]


def _is_needed(porting: Porting, node: cst.Import | cst.ImportFrom) -> bool:
    """Whether the port uses what an import brings."""
    return bool(_uses(porting, node))


def _uses(porting: Porting, node: cst.Import | cst.ImportFrom) -> list[cst.Name | cst.Attribute]:
    """Where the port uses what an import brings."""
    module, scope = porting.module, porting.module.scope(node)
    if isinstance(node.names, cst.ImportStar):
        names = (name for name in module.parents if isinstance(name, cst.Name))
        uses: list[cst.Name | cst.Attribute] = [name for name in names if is_of_star(module, name)]
    else:
        bound = [name for name, made in scope.bindings.items() if any(each.node is node for each in made)]
        uses = [use for name in bound for use in module.references(name, scope)]
    return [use for use in uses if not porting.covered(module.span(use)[0])]
