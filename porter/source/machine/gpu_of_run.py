"""The GPU that a script ran on, where its file names one: a notebook's outputs and metadata, Modal's `gpu="A100"`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

if TYPE_CHECKING:
    from ..module import Module
    from ..scopes import Binding

CAPABILITY = "torch.cuda.get_device_capability"
PROPERTIES = "torch.cuda.get_device_properties"
PARTS = ("major", "minor")
# Compute capabilities, by how Colab, Kaggle and Modal call their GPUs; of several that fit the longest name.
CAPABILITIES = {
    "K80": (3, 7),
    "P100": (6, 0),
    "V100": (7, 0),
    "T4": (7, 5),
    "A100": (8, 0),
    "A10": (8, 6),
    "A10G": (8, 6),
    "A40": (8, 6),
    "A6000": (8, 6),
    "L4": (8, 9),
    "L40S": (8, 9),
    "G4": (12, 0),  # Colab's RTX PRO 6000
    "H100": (9, 0),
    "H200": (9, 0),
    "B200": (10, 0),
}
USUAL = (8, 0)  # bf16, no fp8: what a script is taken to have run on that names no GPU
FITS = re.compile(rf"({'|'.join(sorted(CAPABILITIES, key=len, reverse=True))})(?![a-z0-9])", re.IGNORECASE)
# How nvidia-smi, torch and Unsloth print a GPU's name: Tesla T4, NVIDIA A100-SXM4-40GB, NVIDIA GeForce RTX 4090.
PRINTED = re.compile(
    rf"(?:NVIDIA|Tesla)(?: GeForce| RTX)*[ -]({'|'.join(sorted(CAPABILITIES, key=len, reverse=True))}|[2-5]0[5-9]0)"
    r"(?![a-zA-Z0-9])"
)
SERIES = {"2": (7, 5), "3": (8, 6), "4": (8, 9), "5": (12, 0)}  # of GeForce RTX
# Where libraries lie on a machine of one's own, and neither on Colab's nor on Kaggle's.
AT_HOME = re.compile(r"(?:/(?:home|Users|root|workspace|mnt)/|[A-Za-z]:\\)[^\s:\"']*site-packages")


@dataclass(frozen=True)
class GpuOfRun:
    """The GPU's name and where it stands, both empty where none is named; its compute capability."""

    name: str = ""
    named_by: str = ""
    capability: tuple[int, int] = USUAL


def gpu_of_run(module: Module) -> GpuOfRun:
    """The GPU of the source run, as far as the file says; comments and texts count for nothing."""
    if "gpu of the run" not in module.memory:
        module.memory["gpu of the run"] = _in_notebook(module) or _of_modal(module) or GpuOfRun()
    found: GpuOfRun = module.memory["gpu of the run"]
    return found


# What the source saw on its GPU: decided here, never asked on the TPU machine.
SEES_GPU: dict[str, Callable[[Module], Any]] = {
    "torch.cuda.is_available": lambda module: True,
    "torch.cuda.is_bf16_supported": lambda module: True,
    CAPABILITY: lambda module: gpu_of_run(module).capability,
    "torch.backends.mps.is_available": lambda module: False,
    "torch.backends.mps.is_built": lambda module: False,
    "torch.xpu.is_available": lambda module: False,
    "torch.npu.is_available": lambda module: False,
}


# Questions that may be told which GPU is meant, as all are alike, or how strictly.
ASKED_OF_ONE = (CAPABILITY, "torch.cuda.is_bf16_supported")
# Of `Module.memory`: what packs say of their libraries. Functions that answer as `torch.cuda.is_available` does, and
# classes whose objects have the GPU as their `.device`.
ASKING, PLACED = "functions that ask for a GPU", "classes that are on a GPU"
BUILD = "torch.version.cuda"


def seen_on_gpu(module: Module, node: cst.CSTNode) -> Callable[[Module], Any] | None:
    """What gives the answer that a call had on the GPU; None for any other call."""
    name = module.qualified(node.func) if isinstance(node, cst.Call) else None
    if name is None:
        return None
    return (lambda module: True) if name in module.memory.get(ASKING, ()) else SEES_GPU.get(name)


def speaks_of_gpu(module: Module) -> bool:
    """Whether a file has the name of anything that asks for a GPU."""
    names = (*SEES_GPU, *module.memory.get(ASKING, ()), *module.memory.get(PLACED, ()), BUILD)
    return any(name.rsplit(".", 1)[-1] in module.text for name in names)


def is_device(module: Module, node: cst.BaseExpression) -> bool:
    """`accelerator.device`, of an object of a class whose objects are on the GPU."""
    if not isinstance(node, cst.Attribute) or node.attr.value != "device":
        return False
    binding = module.single_binding(node.value) if isinstance(node.value, cst.Name | cst.Attribute) else None
    made = binding.value if binding is not None else node.value
    return isinstance(made, cst.Call) and module.qualified(made.func) in module.memory.get(PLACED, ())


def _in_notebook(module: Module) -> GpuOfRun | None:
    if module.notebook is None:
        return None
    document = json.loads(module.notebook.raw.removeprefix("\ufeff"))
    printed = "\n".join(_printed(document))
    names = {*PRINTED.findall(printed)}
    if len(names) == 1:
        name = names.pop()
        had = CAPABILITIES.get(name) or SERIES[name[0]]
        return GpuOfRun(name if name in CAPABILITIES else f"RTX {name}", "the notebook's outputs name it", had)
    if AT_HOME.search(printed):
        return None
    metadata = document.get("metadata")
    for service, key in (("colab", "gpuType"), ("kaggle", "accelerator")):
        said = _member(_member(metadata, service), key)
        if (found := _known(said, f"the notebook's metadata name it for {service.capitalize()}")) is not None:
            return found
    return None


def _printed(document: Any) -> Iterator[str]:
    """What the cells of a notebook have printed, and the results that they show."""
    cells = _member(document, "cells")
    for cell in cells if isinstance(cells, list) else ():
        outputs = _member(cell, "outputs")
        for output in outputs if isinstance(outputs, list) else ():
            for text in (_member(output, "text"), _member(_member(output, "data"), "text/plain")):
                lines = text if isinstance(text, list) else [text]
                yield "".join(line for line in lines if isinstance(line, str))


def _member(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _known(said: Any, named_by: str) -> GpuOfRun | None:
    """`T4`, `nvidiaTeslaT4`, `A100-80GB:2`."""
    found = FITS.search(said) if isinstance(said, str) else None
    return GpuOfRun(found[0].upper(), named_by, CAPABILITIES[found[0].upper()]) if found is not None else None


def _of_modal(module: Module) -> GpuOfRun | None:
    """What all functions of a Modal app ask for; None where they ask for several kinds."""
    if "modal" not in module.roots:
        return None
    asked = {
        _known(argument.value.evaluated_value, "Modal is asked for it")
        for call in module.calls
        for argument in call.args
        if argument.keyword is not None
        and argument.keyword.value == "gpu"
        and isinstance(argument.value, cst.SimpleString)
    }
    return asked.pop() if len(asked) == 1 else None


def is_properties(module: Module, node: cst.BaseExpression) -> bool:
    """`torch.cuda.get_device_properties(0)`, itself or by a variable."""
    meaning = module.meaning(node)
    values = [binding.value for binding in meaning[1]] if meaning is not None else [node]
    return all(isinstance(value, cst.Call) and module.qualified(value.func) == PROPERTIES for value in values)


def asks_capability(module: Module, node: cst.CSTNode | None) -> bool:
    """`torch.cuda.get_device_capability()`, or one part of it of the properties: `properties.major`."""
    if isinstance(node, cst.Call):
        return module.qualified(node.func) == CAPABILITY
    return isinstance(node, cst.Attribute) and node.attr.value in PARTS and is_properties(module, node.value)


def capability_binding(module: Module, node: cst.Name) -> Binding | None:
    """One of the bindings of a name that is the GPU's capability, or the same part of it, wherever it is bound."""
    meaning = module.meaning(node)
    made = meaning[1] if meaning is not None else []
    if not made or not all(asks_capability(module, binding.value) for binding in made):
        return None
    kinds = {(binding.index, isinstance(binding.value, cst.Call), _part_of(binding)) for binding in made}
    return made[0] if len(kinds) == 1 else None


def _part_of(binding: Binding) -> str:
    return binding.value.attr.value if isinstance(binding.value, cst.Attribute) else ""
