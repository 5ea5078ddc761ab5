"""vLLM: it samples what a trainer may sample itself. Settings are taken, an engine of its own is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .unknown import Unknown

NO_LIGER = ("use_liger_loss", "use_liger_kernel", "use_liger")


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    return {"vllm": lambda: {"__version__": "0.0.0", "SamplingParams": SamplingParams}, "triton": kernels}


class SamplingParams(SimpleNamespace):
    """What would be sampled with; nobody samples with it here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)


def kernels() -> dict[str, Any]:
    """triton: kernels can be written down, not launched."""

    def jit(function: Any = None, **kwargs: Any) -> Any:
        return Unknown(f"the Triton kernel {function.__name__}") if callable(function) else jit

    return {
        "jit": jit,
        "autotune": lambda *a, **k: lambda kernel: kernel,
        "heuristics": lambda *a, **k: lambda kernel: kernel,
        "cdiv": lambda a, b: -(-a // b),
        "next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    }


def without_gpu_settings(args: Any, note: Callable[[str], None]) -> None:
    """Take vLLM and Liger's fused losses out of a trainer's arguments: the trainer samples and computes itself."""
    if getattr(args, "use_vllm", False):
        args.use_vllm = False
        note("the trainer sampled its completions itself instead of vLLM (use_vllm)")
    for name in NO_LIGER:
        if getattr(args, name, False):
            setattr(args, name, False)
            note("Liger's fused loss needs a GPU: the plain one computes the same")
