"""Rows that every JAX process makes whole, and puts its part of on its devices.

Tunix would take what a process is fed for that process's own rows (jax.make_array_from_process_local_data). A row whose
tensor-parallel places lie in several processes is then another row in each of them, and nothing says so. Global arrays
it passes through as they are (tunix/sft/sharding_utils.py).
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from . import processes

Batch = dict[str, np.ndarray]

_made_of: dict[int, np.ndarray] = {}  # by id, as long as the global array is there


def placed(batches: Iterable[Batch], mesh: jax.sharding.Mesh) -> Iterator[Batch]:
    """Micro-batches as a trainer is fed them: as they are in one process, in several as global arrays of the mesh.

    ValueError where the processes make other rows: all that came so far are compared at the first micro-batch, the
    second, the fourth and so on.
    """
    if jax.process_count() == 1:
        yield from batches
        return
    seen = 0
    for number, batch in enumerate(batches, 1):
        for array in batch.values():
            seen = zlib.crc32(np.ascontiguousarray(array).data, seen)
        if not number & (number - 1):
            processes.agree(f"the rows up to micro-batch {number}", seen)
        yield {name: _remembered(on_mesh(array, mesh), array) for name, array in batch.items()}


def on_mesh(array: np.ndarray, mesh: jax.sharding.Mesh) -> Any:
    """An array that all processes hold as one of the mesh, its rows dealt over the fsdp axis if that divides them."""
    parts = dict(mesh.shape).get("fsdp", 0)
    dealt = parts and array.ndim and array.shape[0] % parts == 0
    sharding = NamedSharding(mesh, PartitionSpec("fsdp") if dealt else PartitionSpec())
    if jax.process_count() == 1:
        return jax.device_put(array, sharding)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def whole(array: Any) -> Any:
    """The rows of `array` that this process can compute on without the others; None where it doesn't hold all of them.

    What is asked of a global array itself runs on all processes, and waits until all have asked.
    """
    if not isinstance(array, jax.Array) or array.is_fully_addressable:
        return array
    return array.addressable_data(0) if array.is_fully_replicated else _made_of.get(id(array))


def _remembered(placed: jax.Array, array: np.ndarray) -> jax.Array:
    _made_of[id(placed)] = array
    weakref.finalize(placed, _made_of.pop, id(placed), None)
    return placed
