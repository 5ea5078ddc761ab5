"""Files that appear whole: written under a temporary name, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def write_tensors(file: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """A safetensors file that torch, transformers and PEFT read; bfloat16 stays bfloat16."""
    from safetensors.flax import save_file  # numpy's own writer has no bfloat16

    partial = _partial(file)
    save_file({name: jnp.asarray(value) for name, value in tensors.items()}, partial, metadata={"format": "pt"})
    os.replace(partial, file)


def read_tensors(file: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file, bfloat16 (as ml_dtypes') included."""
    from safetensors.flax import load_file

    return {name: np.asarray(value) for name, value in load_file(file).items()}


def write_json(file: Path, value: Any) -> None:
    """Indented JSON with sorted keys, as transformers writes its configs."""
    partial = _partial(file)
    partial.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(partial, file)


def to_host(array: jax.Array) -> np.ndarray:
    """A possibly sharded array as NumPy's, on every process (all of them must ask)."""
    if array.is_fully_addressable:
        return np.asarray(array)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _partial(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.with_name(file.name + ".partial")
