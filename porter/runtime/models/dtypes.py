"""The types that scripts name: JAX's, PyTorch's, their names."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

KNOWN = {"float32": jnp.float32, "bfloat16": jnp.bfloat16, "float16": jnp.bfloat16}


def jax_type(dtype: Any) -> Any:
    """float32 or bfloat16 for a JAX type, a type of PyTorch or the name of one; None for None and "auto".

    float16 is bfloat16, in which a TPU computes. ValueError for other types, which nothing is trained in.
    """
    if dtype is None:
        return None
    known = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)
    name = str(known).removeprefix("torch.")
    if name in ("auto", "None"):
        return None
    if name not in KNOWN:
        raise ValueError(f"dtype={name!r}: expected auto, float32, bfloat16 or float16 (loaded as bfloat16)")
    return KNOWN[name]
