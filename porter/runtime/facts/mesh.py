"""Which meshes a model fits: Tunix shards heads, vocabulary and hidden sizes, and each must divide its axis.

Needs no JAX: the porter asks before anything is loaded, and loading asks before the first tensor is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .family import Family, Tensor


def mesh_problems(family: Family, model: Mapping[str, Any], fsdp: int, tp: int) -> list[str]:
    """Tensors that a (fsdp, tp) mesh does not divide, one line each, and last the meshes of this size that do.

    `model`: sizes, or config.json's contents. Empty when everything fits. A tensor that recurs in every layer is
    named once, at the first layer of its attention kind.
    """
    tensors = family.tensors(family.sizes_of(model))
    found: dict[tuple[str, str], str] = {}
    for tensor in tensors:
        for axis, size, mesh_axis in zip(tensor.axes, tensor.shape_tunix, tensor.sharding, strict=True):
            devices = {"fsdp": fsdp, "tp": tp}.get(mesh_axis, 1)
            if size % devices:
                said = f"{tensor.tunix}: {axis} = {size} does not divide by {mesh_axis} = {devices}"
                found.setdefault((re.sub(r"/\d+/", "/", tensor.tunix) + axis, str(size)), said)
    if not found:
        return []
    count = fsdp * tp
    fitting = [(count // t, t) for t in range(1, count + 1) if count % t == 0 and _fits(tensors, count // t, t)]
    meshes = ", ".join(f"fsdp={f},tp={t}" for f, t in fitting)
    return [*found.values(), f"meshes of {count} devices that fit: {meshes or 'none'}"]


def _fits(tensors: Iterable[Tensor], fsdp: int, tp: int) -> bool:
    counts = {"fsdp": fsdp, "tp": tp}
    return all(
        size % counts.get(axis, 1) == 0 for t in tensors for size, axis in zip(t.shape_tunix, t.sharding, strict=True)
    )
