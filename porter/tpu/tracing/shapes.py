"""Modules whose arrays are shapes with shardings: made by tracing, placed on a mesh, and counted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def abstract_optimizer(module: Any) -> Iterator[None]:
    """Within it, `nnx.Optimizer` makes its state as shapes. `module` is Tunix's trainer, which calls it."""
    from flax import nnx

    original = nnx.Optimizer

    def make(model: Any, tx: Any, *, wrt: Any) -> Any:
        return nnx.eval_shape(lambda inner: original(inner, tx, wrt=wrt), model)

    module.nnx.Optimizer = make
    try:
        yield
    finally:
        module.nnx.Optimizer = original


def abstract(function: Callable[[Any], Any], model: Any) -> Any:
    """`function(model)` traced: a model of shapes. Static attributes pass through."""
    from flax import nnx

    return nnx.eval_shape(function, model)


def mesh_of(model: Any) -> Any:
    """The mesh that an abstract model's parameters are placed on; None for a model that is being traced."""
    import jax
    from flax import nnx

    leaves = [leaf for leaf in jax.tree.leaves(nnx.state(model)) if isinstance(leaf, jax.ShapeDtypeStruct)]
    return next((leaf.sharding.mesh for leaf in leaves if isinstance(leaf.sharding, jax.sharding.NamedSharding)), None)


def placed(module: Any, mesh: Any, dtype: Any) -> None:
    """Give every abstract variable of `module` its annotated sharding, and floating parameters `dtype` if not None."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    state = nnx.state(module)
    shardings = dict(nnx.to_flat_state(nnx.get_named_sharding(state, mesh)))
    flat = []
    for path, variable in nnx.to_flat_state(state):
        value = variable.get_value()
        wanted: Any = shardings.get(path)
        wanted = wanted.get_value() if hasattr(wanted, "get_value") else wanted
        if not isinstance(wanted, jax.sharding.NamedSharding) or len(wanted.spec) > len(value.shape):
            wanted = replicated
        kind = value.dtype
        if dtype is not None and jnp.issubdtype(kind, jnp.floating):
            kind = dtype
        flat.append((path, variable.replace(jax.ShapeDtypeStruct(value.shape, kind, sharding=wanted))))
    nnx.update(module, nnx.from_flat_state(flat))


def bytes_of(state: Any) -> int:
    """Bytes of a state on one device."""
    import jax

    total = 0
    for leaf in jax.tree.leaves(state):
        shape = leaf.sharding.shard_shape(leaf.shape) if getattr(leaf, "sharding", None) else leaf.shape
        size = 4 if not hasattr(leaf.dtype, "itemsize") else leaf.dtype.itemsize
        count = 1
        for length in shape:
            count *= length
        total += count * size // (2 if str(leaf.dtype) == "uint4" else 1)  # two to a byte on a TPU
    return int(total)


def by_axes(state: Any) -> dict[str, int]:
    """Bytes over the whole mesh, by the mesh axes that a leaf is sharded on ("fsdp tp", "tp", "")."""
    import jax

    found: dict[str, int] = {}
    for leaf in jax.tree.leaves(state):
        axes = " ".join(sorted(str(axis) for axis in leaf.sharding.spec if axis is not None))
        size = getattr(leaf.dtype, "itemsize", 4)
        found[axes] = found.get(axes, 0) + int(leaf.size) * size
    return found


def count_of(state: Any) -> int:
    import jax

    return int(sum(leaf.size for leaf in jax.tree.leaves(state)))
