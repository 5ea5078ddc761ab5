"""liger_kernel: its kernels compute what the models compute, so patching them in is nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .unknown import Unknown


def modules() -> dict[str, Callable[[], dict[str, Any]]]:
    return {"liger_kernel.transformers": names, "liger_kernel.transformers.monkey_patch": patches}


def names() -> dict[str, Any]:
    """liger_kernel.transformers."""
    import torch
    import transformers

    return {
        "AutoLigerKernelForCausalLM": transformers.AutoModelForCausalLM,
        "LigerCrossEntropyLoss": torch.nn.CrossEntropyLoss,
        **patches(),
    }


def patches() -> dict[str, Any]:
    return {"__getattr__": _patch}


def _patch(name: str) -> Any:
    """`apply_liger_kernel_to_llama` and its kin do nothing; another name is unknown."""
    if name.startswith("__"):
        raise AttributeError(name)
    if "apply_liger_kernel" in name:
        return lambda *args, **kwargs: None
    return Unknown(f"liger_kernel.transformers.{name}")
