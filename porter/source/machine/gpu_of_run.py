"""The GPU that a script ran on, where its file names one: a notebook's outputs and metadata, Modal's `gpu="A100"`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

if TYPE_CHECKING:
    from ..module import Module
    from ..scopes import Binding

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
KAGGLE = {"nvidiaTeslaT4": 2, "nvidiaTeslaP100": 1}  # GPUs of its machines
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
        module.memory["gpu of the run"] = _in_notebook(module) or _by_keyword(module) or GpuOfRun()
    found: GpuOfRun = module.memory["gpu of the run"]
    return found


@dataclass(frozen=True)
class GpuNames:
    """What packs say of their libraries' names, each by its import name; docs/packs.md says what they are."""

    sees_gpu: Collection[str] = ()
    sees_gpu_of: Collection[str] = ()
    sees_no_gpu: Collection[str] = ()
    gpu_capability: Collection[str] = ()
    gpu_properties: Collection[str] = ()
    gpu_build: Collection[str] = ()
    on_gpu: Collection[str] = ()
    devices: Collection[str] = ()
    gpu_keyword: Collection[str] = ()

    @property
    def asking(self) -> tuple[str, ...]:
        """Functions that ask for a GPU."""
        return (*self.sees_gpu, *self.sees_gpu_of, *self.sees_no_gpu, *self.gpu_capability)


GPU_NAMES, NONE = "names of what is on a GPU", GpuNames()  # of `Module.memory`
SPEAKS = "whether a file speaks of GPUs"  # of the same


def gpu_names(module: Module) -> GpuNames:
    """What is known of the names of a file."""
    found: GpuNames = module.memory.get(GPU_NAMES, NONE)
    return found


def seen_on_gpu(module: Module, node: cst.CSTNode) -> Any:
    """The answer that a call had on the GPU, which the TPU machine is never asked for; None for any other call."""
    name = module.qualified(node.func) if isinstance(node, cst.Call) else None
    names = gpu_names(module)
    if name is None or name not in names.asking:
        return None
    return gpu_of_run(module).capability if name in names.gpu_capability else name not in names.sees_no_gpu


def may_be_told(module: Module, call: cst.Call) -> bool:
    """Whether a question may be told which GPU is meant, as all are alike, or how strictly."""
    names = gpu_names(module)
    return module.qualified(call.func) in (*names.gpu_capability, *names.sees_gpu_of)


def is_build(module: Module, node: cst.CSTNode) -> bool:
    """`torch.version.cuda`, which isn't None on a GPU machine."""
    names = gpu_names(module).gpu_build
    return isinstance(node, cst.Name | cst.Attribute) and bool(names) and module.qualified(node) in names


def device_named(module: Module, made: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """What `torch.device(...)` is given; None for anything else."""
    if not isinstance(made, cst.Call) or len(made.args) != 1:
        return None
    return made.args[0].value if module.qualified(made.func) in gpu_names(module).devices else None


def speaks_of_gpu(module: Module) -> bool:
    """Whether a file has the name of anything that asks for a GPU."""
    names = gpu_names(module)
    known, found = module.memory.get(SPEAKS, (None, False))
    if known is not names:  # asked for every call of the file, and looks through all of its text
        every = (*names.asking, *names.on_gpu, *names.gpu_build)
        found = any(name.rsplit(".", 1)[-1] in module.text for name in every)
        module.memory[SPEAKS] = names, found
    return bool(found)


def is_device(module: Module, node: cst.BaseExpression) -> bool:
    """`accelerator.device`, of an object of a class whose objects are on the GPU."""
    if not isinstance(node, cst.Attribute) or node.attr.value != "device":
        return False
    binding = module.single_binding(node.value) if isinstance(node.value, cst.Name | cst.Attribute) else None
    made = binding.value if binding is not None else node.value
    return isinstance(made, cst.Call) and module.qualified(made.func) in gpu_names(module).on_gpu


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


def kaggle_gpus(module: Module) -> int:
    """How many GPUs the machine has that a notebook's metadata name for Kaggle: its T4 are two; 0 where none does."""
    if module.notebook is None:
        return 0
    document = json.loads(module.notebook.raw.removeprefix("\ufeff"))
    said = _member(_member(_member(document, "metadata"), "kaggle"), "accelerator")
    return KAGGLE.get(said, 0) if isinstance(said, str) else 0


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


def _by_keyword(module: Module) -> GpuOfRun | None:
    """What all functions of a Modal app ask for; None where they ask for several kinds."""
    packages = module.roots.intersection(gpu_names(module).gpu_keyword)
    if not packages:
        return None
    asked = {
        _known(argument.value.evaluated_value, f"{min(packages).capitalize()} is asked for it")
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
    names = gpu_names(module).gpu_properties
    return all(isinstance(value, cst.Call) and module.qualified(value.func) in names for value in values)


def asks_capability(module: Module, node: cst.CSTNode | None) -> bool:
    """`torch.cuda.get_device_capability()`, or one part of it of the properties: `properties.major`."""
    if isinstance(node, cst.Call):
        return module.qualified(node.func) in gpu_names(module).gpu_capability
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
