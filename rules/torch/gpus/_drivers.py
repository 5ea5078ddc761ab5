"""Calls that ask NVIDIA's driver: by NVML's packages, or by the command nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from porter.packs.api import Porting
from porter.packs.script import Module, origins
from porter.packs.training import facts_of

from ..gpus_left._reached import ENDING, holds_training

# What `from pynvml import *` brings.
OF_ANY = re.compile(r"nvml[A-Z]\w*|NVML\w+|NVMLError|c_nvml\w+|showUtilization|getGPUs|getAvailable")
COMMAND = "nvidia-smi"
# Functions that start a command: those that raise where it isn't there, and those that go on.
STARTS = frozenset(f"subprocess.{name}" for name in ("run", "Popen", "call", "check_call", "check_output"))
CHECKED = frozenset({"subprocess.check_call", "subprocess.check_output"})
SHELLS = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})


def names_driver(module: Module) -> bool:
    """Whether a file names anything of the kind."""
    return COMMAND in module.text or any(package in module.text for package in facts_of(module).gpu_drivers)


def driver_imports(module: Module) -> Iterator[cst.Import | cst.ImportFrom]:
    """The imports of packages that ask the driver."""
    for node in module.parents:
        if isinstance(node, cst.Import) and any(_is_driver(module, alias.name) for alias in node.names):
            yield node
        elif isinstance(node, cst.ImportFrom) and not node.relative and node.module is not None:
            if _is_driver(module, node.module):
                yield node


def asks_driver(module: Module, node: cst.BaseExpression) -> bool:
    """Whether a call, name or attribute is of such a package, or a call starts the command."""
    if isinstance(node, cst.Call):
        return starts_command(module, node) or asks_driver(module, node.func)
    if (name := module.qualified(node)) is not None:
        return name.partition(".")[0] in facts_of(module).gpu_drivers
    return isinstance(node, cst.Name) and is_of_star(module, node)


def is_of_star(module: Module, name: cst.Name) -> bool:
    """Whether a name is what a star brings of such a package."""
    if OF_ANY.fullmatch(name.value) is None or module.scope(name).lookup(name.value) is not None:
        return False
    return any(isinstance(node.names, cst.ImportStar) for node in driver_imports(module))


def starts_command(module: Module, call: cst.Call) -> bool:
    """Whether a call starts nvidia-smi."""
    return module.qualified(call.func) in STARTS | SHELLS and _command(module, call) is not None


def ends_without_command(module: Module, call: cst.Call) -> bool:
    """Whether it raises where there is no such command: a shell that isn't asked says so and goes on."""
    name = module.qualified(call.func)
    if name not in STARTS or (command := _command(module, call)) is None:
        return False
    given = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    shell, check = (module.code(given[word]) if word in given else "False" for word in ("shell", "check"))
    if shell == "False":
        return not isinstance(command, cst.SimpleString) or str(command.evaluated_value).strip() == COMMAND
    return name in CHECKED or check == "True"


def is_asked_first(porting: Porting, node: cst.CSTNode) -> bool:
    """Whether a `try` says what holds without a driver: around a call or an import, or around its package's import."""
    module = porting.module
    if any(_is_tried(porting, holder, node) for holder in module.ancestors(node)):
        return True
    name = module.qualified(node.func) if isinstance(node, cst.Call) else None
    package = name.partition(".")[0] if name is not None else ""
    return package in facts_of(module).gpu_drivers and all(
        is_asked_first(porting, found) for found in driver_imports(module) if package in module.code(found)
    )


def _is_tried(porting: Porting, holder: cst.CSTNode, node: cst.CSTNode) -> bool:
    module = porting.module
    if not isinstance(holder, cst.Try) or holder.body not in (*module.ancestors(node),):
        return False
    ends = (ENDING.search(module.code(handler.body)) for handler in holder.handlers)
    return not all(ends) and not holds_training(porting, holder)


def _command(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """What is started, where that is nvidia-smi: a text, or a list that begins with it."""
    given = next((argument.value for argument in call.args if argument.keyword is None), None)
    for value in origins(module, given):
        parts = [part.value for part in value.elements] if isinstance(value, cst.List | cst.Tuple) else [value]
        first = parts[0] if parts else None
        if isinstance(first, cst.SimpleString) and str(first.evaluated_value).split()[:1] == [COMMAND]:
            return value
    return None


def _is_driver(module: Module, name: cst.BaseExpression) -> bool:
    return module.code(name).partition(".")[0] in facts_of(module).gpu_drivers
