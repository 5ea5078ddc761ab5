"""`save_model`: a trained Tunix model as transformers and PEFT would have written it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from ..facts.files import to_host, write_json, write_tensors
from ..facts.generation_settings import checkpoint_settings, own_settings, saved_settings
from ..hosts import processes as hosts
from ..models import weights
from ..models.load_model import Buffer
from ..models.quantization import held_weights
from ..models.vocabulary import TABLES
from .adapters import save_adapter

# Bytes of one file: what is gathered on the host at a time.
SHARD_BYTES = 5 * 1024**3


def save_model(model: nnx.Module, path: str | Path, tokenizer: Any = None) -> None:
    """Writes what transformers' Trainer.save_model writes: a LoRA model's adapter, or the whole model; of
    `rt.merge_and_unload` the merged one.

    A whole model goes into safetensors under the names it was loaded from, in the weights' dtype, with config.json and
    generation_config.json; parts outside the text model (a vision tower) are copied from the checkpoint. Its weights
    appear under their names only when all are written. `tokenizer` is saved beside it. All processes must call this;
    the first one writes.
    """
    folder = Path(path)
    if hasattr(model, "unmerged"):  # a MergedModel, where a script merges only what has adapters
        model.save_pretrained(folder)
    elif getattr(model, "lora", None) is not None:
        save_adapter(model, folder)
    elif model.porter.quantization is not None:
        raise ValueError("a quantised base is frozen and has no adapters here: there is nothing trained to save")
    else:
        save_whole(model, folder, tensors_of(model))
    if tokenizer is not None and jax.process_index() == 0:
        tokenizer.save_pretrained(folder)


def save_whole(
    model: nnx.Module, folder: Path, tensors: Iterator[tuple[str, np.ndarray]], dtype: np.dtype[Any] | None = None
) -> None:
    """Writes `tensors`, (name, value) in the checkpoint's order, as the whole model's, with its configs beside them.

    `dtype`: what config.json says; None for the weights' own.
    """
    info, first = model.porter, jax.process_index() == 0
    hosts.together("saving the model")
    written: list[tuple[Path, list[str]]] = []
    total = 0
    for shard in _shards(tensors):
        file = folder / f"{len(written)}.safetensors.new"
        total += sum(array.nbytes for array in shard.values())
        written.append((file, list(shard)))
        if first:
            write_tensors(file, shard)
    if not first:
        return
    for old in (*folder.glob("model*.safetensors"), folder / "model.safetensors.index.json"):
        old.unlink(missing_ok=True)  # of an earlier save with other shards: transformers would read them, too
    weight_map = {}
    for i, (file, names) in enumerate(written, 1):
        name = "model.safetensors" if len(written) == 1 else f"model-{i:05d}-of-{len(written):05d}.safetensors"
        os.replace(file, folder / name)
        weight_map.update(dict.fromkeys(names, name))
    if len(written) > 1:
        write_json(
            folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
        )
    generation = checkpoint_settings(model) if own_settings(model) else saved_settings(model)
    if generation is not None:
        write_json(folder / "generation_config.json", generation)
    write_json(folder / "config.json", _config(info.config, dtype or _dtype(_parameters(model)), info.vocabulary))


def tensors_of(
    model: nnx.Module, *, unquantized: bool = False, unrounded: bool = False
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and value of every tensor of the checkpoint that the model was loaded from, as it is now.

    Weights that are held in 4 or 8 bits come as what the model multiplies by, in the dtype of the embedding; with
    `unquantized` as the checkpoint has them; with `unrounded` all that the model holds as it was loaded.
    """
    info, parameters, held = model.porter, _parameters(model), held_weights(model)
    source = Path(info.path)
    headers = weights.read_headers(source)
    plan = weights.plan(info.family, info.config, headers, info.id)
    for name, tensor in plan.tensors.items():
        if info.vocabulary is not None and tensor.tunix in TABLES:
            tensor = replace(tensor, shape_hf=(info.vocabulary, *tensor.shape_hf[1:]))
        weight = held.get(tensor.tunix)
        if unquantized and weight is not None:
            yield name, _read(source / headers[name].file, name).astype(_dtype(parameters))
            continue
        value = parameters[tensor.tunix] if weight is None else weight.dequantized(_dtype(parameters))
        array = np.ascontiguousarray(weights.to_hf(tensor, to_host(value)))
        own = _read(source / headers[name].file, name) if unrounded else array
        yield name, own if own.shape == array.shape and np.array_equal(own.astype(array.dtype), array) else array
    for name in plan.other:
        if name != "lm_head.weight":  # a tied head that the checkpoint repeats would keep the old embedding
            yield name, _read(source / headers[name].file, name)


def _read(file: Path, name: str) -> np.ndarray:
    """A tensor of a checkpoint."""
    with weights.opened(file) as read:
        return read(name)


def _shards(tensors: Iterator[tuple[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
    shard: dict[str, np.ndarray] = {}
    for name, array in tensors:
        if shard and sum(held.nbytes for held in shard.values()) + array.nbytes > SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = array
    yield shard


def _parameters(model: nnx.Module) -> dict[str, jax.Array]:
    state = nnx.to_flat_state(nnx.state(model, nnx.Any(nnx.Param, Buffer)))
    return {"/".join(map(str, path)): leaf.get_value() for path, leaf in state}


def _dtype(parameters: dict[str, jax.Array]) -> np.dtype[Any]:
    """The dtype of the embedding, which is never quantised."""
    return next(parameters[name].dtype for name in TABLES if name in parameters)


def _config(config: dict[str, Any], saved: np.dtype[Any], vocabulary: int | None) -> dict[str, Any]:
    """The model's config.json with the dtype that its weights have now, and the rows of its embedding."""
    dtype = saved.name
    for part in (config, config.get("text_config", {})):
        if vocabulary is not None and "vocab_size" in part:
            part["vocab_size"] = vocabulary
        for key in ("dtype", "torch_dtype"):
            if key in part:
                part[key] = dtype
    return config
