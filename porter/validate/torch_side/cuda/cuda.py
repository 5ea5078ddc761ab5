"""`cuda` in every spelling is the CPU: tensors, modules, factory functions, checkpoints, autocast and Accelerator.

So is `mps`, which is torch's name of an Apple GPU, and that of any other accelerator. A `torch.device("cuda")` object
stays one, so that scripts that compare it go on; it is the CPU where it is used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .cuda_answers import patch_answers, patch_apple
from .half_precision import keep_float32
from .process_groups import patch_process_groups


class Precision(Protocol):
    """What of `Settings` is read here."""

    @property
    def dtype(self) -> str: ...

    @property
    def capability(self) -> tuple[int, int]: ...


class Told(Protocol):
    """What of `Substitutes` is used here."""

    settings: Precision

    def note(self, text: str) -> None: ...


GPUS = ("cuda", "mps", "xpu", "npu", "hpu")
APPLE = "the script asked for an Apple GPU: `mps` was the CPU"
_TOLD: list[Callable[[], None]] = []  # what hears that the script names the Apple GPU


def on_cpu(device: Any) -> Any:
    """The CPU for what names a GPU (`"cuda:1"`, a torch.device, an index); anything else as it is."""
    import torch

    if isinstance(device, str | torch.device):
        name = str(device).partition(":")[0]
        if name == "mps":
            for told in _TOLD:
                told()
        return "cpu" if name in GPUS else device
    return "cpu" if isinstance(device, int) and not isinstance(device, bool) else device


def patch_cuda(substitutes: Told, sources: Sequence[str] = ()) -> None:
    """Patch torch, and accelerate where it is installed, in this process. Needs torch 2.1 or later.

    `sources` are the texts of the script and its project.
    """
    import torch

    _patch_moves(torch)
    if substitutes.settings.dtype == "float32":
        keep_float32(substitutes.note)
    _patch_factories(torch)
    _patch_generator(torch)
    _patch_loads(torch)
    _patch_compiling(torch)
    _TOLD[:] = [functools.partial(substitutes.note, APPLE)]
    patch_answers(substitutes.note, substitutes.settings.capability)
    patch_apple(_TOLD[0], any("cuda" in text for text in sources))
    patch_process_groups(substitutes.note)
    _patch_autocast(torch, substitutes.settings.dtype)
    _patch_accelerate(substitutes)


def _patch_moves(torch: Any) -> None:
    for owner in (torch.Tensor, torch.nn.Module):
        owner.to = _with_device(owner.to, first=True)
        owner.cuda = lambda self, *args, **kwargs: self
    for name in ("pin_memory", "record_stream"):
        setattr(torch.Tensor, name, lambda self, *args, **kwargs: self)
    for name in ("new_tensor", "new_zeros", "new_ones", "new_full", "new_empty"):
        setattr(torch.Tensor, name, _with_device(getattr(torch.Tensor, name)))
    torch.nn.Module.to_empty = _with_device(torch.nn.Module.to_empty)
    for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Bool", "Byte", "Char", "Short"):
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))


def _with_device(original: Callable[..., Any], *, first: bool = False) -> Callable[..., Any]:
    """`original` with its `device=` on the CPU; with `first`, a first argument after self that names one, too."""

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if first and len(args) > 1:
            args = (args[0], on_cpu(args[1]), *args[2:])
        return original(*args, **kwargs)

    return patched


def _patch_factories(torch: Any) -> None:
    """torch.zeros and its kin: those that torch's own default device goes through.

    torch finds them by identity (for that default, and in TorchScript), so both are told.
    """
    from torch.jit import _builtins
    from torch.utils import _device

    constructors = _device._device_constructors()  # cached: it has to hold the originals
    for owner in (torch, torch.fft):
        for name, original in list(vars(owner).items()):
            if not callable(original) or inspect.isclass(original):
                continue
            if original not in constructors and not (owner is torch and name.endswith("_like")):
                continue
            patched = _with_device(original)
            operator = _builtins._find_builtin(original)
            if operator is not None:
                _builtins._register_builtin(patched, operator)
            setattr(owner, name, patched)
    for owner, name in ((torch, "set_default_device"), (_device.DeviceContext, "__init__")):
        setattr(owner, name, _first_on_cpu(getattr(owner, name), 0 if owner is torch else 1))


def _first_on_cpu(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        return original(*(on_cpu(arg) if index == position else arg for index, arg in enumerate(args)), **kwargs)

    return patched


def _patch_generator(torch: Any) -> None:
    original = torch.Generator

    class OnCpu(type):
        def __call__(cls, device: Any = "cpu") -> Any:
            return original(on_cpu(device))

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

    class Generator(metaclass=OnCpu):
        """torch.Generator, whose device is the CPU."""

    torch.Generator = Generator


def _patch_loads(torch: Any) -> None:
    load = torch.load

    @functools.wraps(load)
    def patched(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(file, "cpu", *args, **kwargs)

    torch.load = patched
    loader = torch.utils.data.DataLoader.__init__

    @functools.wraps(loader)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        kwargs.pop("pin_memory_device", None)
        loader(self, *args, **kwargs)

    torch.utils.data.DataLoader.__init__ = init
    try:
        import safetensors.torch as safe
    except ImportError:
        return
    load_file = safe.load_file

    @functools.wraps(load_file)
    def patched_file(filename: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> Any:
        return load_file(filename, on_cpu(device), *args, **kwargs)

    safe.load_file = patched_file


def _patch_compiling(torch: Any) -> None:
    """Compiling changes no value, and takes longer than the comparison."""

    def compiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        return model if model is not None else lambda function: function

    torch.compile = compiled
    torch.nn.Module.compile = lambda self, *args, **kwargs: None


def _patch_autocast(torch: Any, dtype: str) -> None:
    """Autocast computes in the precision that is compared; loss scaling is off, as torch has it without a GPU."""
    init = torch.autocast.__init__

    @functools.wraps(init)
    def patched(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if dtype == "float32":
            init(self, "cpu", enabled=False)
            return
        if args and not isinstance(args[0], bool):
            kwargs["dtype"] = args[0]
        kwargs["dtype"] = torch.bfloat16 if kwargs.get("dtype") in (None, torch.float16) else kwargs["dtype"]
        init(self, "cpu", **kwargs)

    torch.autocast.__init__ = patched


def _patch_accelerate(substitutes: Told) -> None:
    """An Accelerator of the CPU, in the precision compared; what spreads a model over GPUs leaves it whole."""
    try:
        import accelerate
    except ImportError:
        return
    init = accelerate.Accelerator.__init__

    @functools.wraps(init)
    def patched(self: Any, *args: Any, **kwargs: Any) -> None:
        if substitutes.settings.dtype == "float32":
            if kwargs.pop("mixed_precision", None) not in (None, "no"):
                substitutes.note("float32 instead of the Accelerator's mixed precision on both sides")
            kwargs["mixed_precision"] = "no"
        elif kwargs.get("mixed_precision") == "fp16":
            kwargs["mixed_precision"] = "bf16"
        for name in ("log_with", "fsdp_plugin", "deepspeed_plugin", "deepspeed_plugins", "dynamo_backend"):
            kwargs.pop(name, None)
        init(self, *args, **kwargs | {"cpu": True})

    accelerate.Accelerator.__init__ = patched

    def whole(model: Any, *args: Any, **kwargs: Any) -> Any:
        return model

    for name in ("dispatch_model", "cpu_offload", "disk_offload"):
        setattr(accelerate, name, whole)
    for name in ("infer_auto_device_map", "get_balanced_memory"):
        owner = accelerate if hasattr(accelerate, name) else accelerate.utils
        setattr(owner, name, lambda *args, **kwargs: {"": "cpu"})
