"""The base model behind its adapters, for as long as a `with` lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
from flax import nnx


@contextmanager
def disable_adapter(model: nnx.Module) -> Iterator[None]:
    """PEFT's `with model.disable_adapter():` the base model, in whose layers the adapters do nothing; they are as they
    were behind it, and where an error ends it.

    ValueError for a model without adapters.
    """
    adapters = jax.tree.leaves(nnx.state(model, nnx.LoRAParam))
    if not adapters:
        raise ValueError("a model without adapters has none to disable")
    nnx.update(model, jax.tree.map(jnp.zeros_like, nnx.state(model, nnx.LoRAParam)))
    try:
        yield
    finally:
        state = nnx.state(model, nnx.LoRAParam)
        nnx.update(model, jax.tree.unflatten(jax.tree.structure(state), adapters))
