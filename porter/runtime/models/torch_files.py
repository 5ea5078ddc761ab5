"""Weights of before safetensors were usual: torch's own files, `pytorch_model.bin` or its parts, read by torch.

A file is mapped into memory, so that a tensor is read from the disk when it is asked for. No code in it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

PATTERN = "pytorch_model*.bin"
WRITE_ANEW = (
    "AutoModelForCausalLM.from_pretrained(MODEL, torch_dtype='auto').save_pretrained(FOLDER), where torch is, writes "
    "safetensors of torch's files."
)
DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}  # safetensors' names


def tensors_in(file: Path) -> Mapping[str, Any]:
    """Name → torch's tensor of everything in a file of weights. ImportError without torch."""
    if find_spec("torch") is None:
        raise ImportError(
            f"{file} is torch's own, and torch isn't installed: pip install torch here (for CPUs will do). {WRITE_ANEW}"
        )
    import torch

    given: dict[str, Any] = {"map_location": "cpu", "weights_only": True}
    try:
        found = torch.load(file, mmap=True, **given)
    except RuntimeError:  # the form of before torch 1.6 can't be mapped
        found = torch.load(file, **given)
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def as_numpy(tensor: Any) -> np.ndarray:
    """A torch tensor's values in its own type; bfloat16 is ml_dtypes'."""
    import ml_dtypes
    import torch

    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())


def dtype_name(tensor: Any) -> str:
    """Its type as safetensors calls it, where those that can be loaded have a name there."""
    name = str(tensor.dtype).removeprefix("torch.")
    return DTYPES.get(name, name)
