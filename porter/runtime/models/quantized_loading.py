"""Loads a checkpoint weight by weight, and quantises each that is to be as soon as it is on the mesh.

Tunix's loader puts whole files of bfloat16 weights on the chips. Here one weight at a time stands there unquantised,
so that a 70B base needs the memory of its codes and scales. Torch's own files, which Tunix's loader doesn't read, are
loaded so, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import qwix
from flax import nnx

from ..facts.family import Family
from .quantization import Quantization, QuantizedWeights, put, tiles, whole_rows
from .weights import Header, Plan, opened, to_tunix


def load_by_weight(
    folder: Path,
    headers: Mapping[str, Header],
    plan: Plan,
    model_class: Any,
    model_config: Any,
    family: Family,
    config: Mapping[str, Any],
    mesh: jax.sharding.Mesh,
    dtype: Any,
    quantization: Quantization | None,
) -> nnx.Module:
    """The model with every linear that `quantization` takes as codes and scales, the rest in `dtype`.

    None takes none.
    """
    with jax.set_mesh(mesh):
        model = nnx.eval_shape(lambda: model_class(model_config, rngs=nnx.Rngs(params=0)))
    tiles_of = _taken(family, config, quantization) if quantization is not None else {}
    shardings = dict(nnx.to_flat_state(nnx.get_named_sharding(nnx.state(model), mesh)))
    places = {"/".join(map(str, path)): path for path in shardings}
    for name, array in _parameters(folder, headers, plan, np.dtype(dtype)):
        path = places[name]
        module = _below(model, path[:-1])
        weight = jax.device_put(array, shardings[path].get_value())
        if quantization is not None and name in tiles_of:
            put(module, str(path[-1]), weight, quantization.qtype, tiles_of[name])
            weight.delete()
        else:
            getattr(module, path[-1]).set_value(weight)
    return computing(model) if quantization is not None else model


def quantize_shapes(
    model: nnx.Module, family: Family, config: Mapping[str, Any], quantization: Quantization
) -> nnx.Module:
    """A model of shapes (jax.ShapeDtypeStruct, placed on a mesh) as `load_by_weight` would hold it."""
    state = {"/".join(map(str, path)): path for path, _ in nnx.to_flat_state(nnx.state(model))}
    for name, tile in _taken(family, config, quantization).items():
        path = state[name]
        module = _below(model, path[:-1])
        put(module, str(path[-1]), getattr(module, path[-1]).get_value(), quantization.qtype, tile)
    return computing(model)


def computing(model: nnx.Module) -> nnx.Module:
    """A copy whose layers multiply by quantised weights."""
    model = qwix.quantize_model(model, QuantizedWeights([]), skip_nnx_init=True, **model.get_model_input())
    for _, module in model.iter_modules():
        del module.qwix_rngs  # qwix leaves None there, a static attribute that its next provider couldn't replace
    return model


def _taken(family: Family, config: Mapping[str, Any], quantization: Quantization) -> dict[str, tuple[int, ...]]:
    """Tunix path → tile of every weight that is quantised."""
    tile = whole_rows if quantization.qtype == "int8" else tiles
    linears = [linear for linear in family.linears(config) if quantization.takes(linear)]
    return {linear.tensor.tunix: tile(linear.tensor) for linear in linears}


def _parameters(
    folder: Path, headers: Mapping[str, Header], plan: Plan, dtype: np.dtype[Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """Tunix path and value of every parameter, read in the files' order; a fused one comes when its last part has."""
    waiting: dict[str, dict[int, np.ndarray]] = {}
    for file in sorted({headers[name].file for name in plan.tensors}):
        with opened(folder / file) as read:
            for name, tensor in plan.tensors.items():
                if headers[name].file != file:
                    continue
                part = to_tunix(tensor, read(name)).astype(dtype)
                parts = waiting.setdefault(tensor.tunix, {})
                parts[tensor.slot] = part
                if len(parts) == tensor.slots:
                    del waiting[tensor.tunix]
                    yield tensor.tunix, part if tensor.slots == 1 else np.stack([parts[i] for i in range(tensor.slots)])
    for tensor in plan.absent:
        yield tensor.tunix, np.zeros(tensor.shape_tunix, dtype)


def _below(model: nnx.Module, path: tuple[Any, ...]) -> Any:
    module: Any = model
    for step in path:
        module = module[step] if isinstance(step, int) else getattr(module, step)
    return module
