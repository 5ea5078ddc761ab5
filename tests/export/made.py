"""Small runs and models made without JAX or torch: Orbax's files through TensorStore, shards through safetensors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from safetensors.numpy import save_file

from porter.runtime.facts import sidecar
from porter.runtime.facts.families import find_family
from porter.runtime.facts.family import Family
from porter.runtime.facts.lora_targets import Site, resolve
from porter.runtime.facts.peft_targets import LoraSpec

CONFIG: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 2, "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 512,
    "dtype": "bfloat16", "query_pre_attn_scalar": 16, "tie_word_embeddings": True,
}  # fmt: skip
# The same text model inside a multimodal one.
MULTIMODAL: dict[str, Any] = {
    "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "tie_word_embeddings": True,
    "text_config": {k: v for k, v in CONFIG.items() if k != "architectures"}, "vision_config": {"hidden_size": 8},
}  # fmt: skip
SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LORA = {"r": 3, "lora_alpha": 6, "target_modules": list(SEVEN)}


def family() -> Family:
    found = find_family("Gemma3ForCausalLM")
    assert found is not None
    return found


def base(folder: Path, *, shards: int = 3, dtype: Any = ml_dtypes.bfloat16, config: dict[str, Any] = CONFIG) -> Path:
    """A model with random weights in `shards` files with an index, and the files that stand beside them."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    tensors = {t.hf: rng.normal(0, 0.05, t.shape_hf).astype(np.float32).astype(dtype) for t in family().tensors(config)}
    names = sorted(tensors)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors" if shards > 1 else "model.safetensors"
        part = {name: tensors[name] for name in names[i::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    if shards > 1:
        index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "generation_config.json").write_text('{"eos_token_id": 1}')
    return folder


def arrays(config: dict[str, Any] = CONFIG, lora: dict[str, Any] = LORA, scale: float = 0.05) -> dict[str, np.ndarray]:
    """Random adapters under Tunix's names, K and V apart as rt.separate_kv keeps them."""
    rng = np.random.default_rng(1)
    found = {}
    for site in sites(config, lora):
        linears = [linear for linear in family().linears(config) if linear.tunix == site.path]
        split, out = linears[0].tensor.split, linears[0].shape_hf[0]
        at = next(i for i in range(1, len(split)) if math.prod(split[:i]) == out)
        slots = (site.slots,) if site.fused else ()
        b = rng.normal(0, scale, (site.rank, *slots, *split[:at])).astype(np.float32)
        if site.fused:
            kept = np.zeros_like(b)
            for block in site.blocks:
                rows = slice(block.start, block.start + block.rank)
                kept[rows, block.slot] = b[rows, block.slot]
            b = kept
        a = rng.normal(0, scale, (*split[at:], site.rank)).astype(np.float32)
        found[f"{site.path}/{site.weight}_lora_a"], found[f"{site.path}/{site.weight}_lora_b"] = a, b
    return found


def whole(config: dict[str, Any] = CONFIG) -> dict[str, np.ndarray]:
    """Random values for every parameter of the model, under Tunix's names and in its shapes, as full training saves."""
    rng = np.random.default_rng(3)
    shapes = {tensor.tunix: tensor.shape_tunix for tensor in family().tensors(config)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def sites(config: dict[str, Any] = CONFIG, lora: dict[str, Any] = LORA) -> tuple[Site, ...]:
    return resolve(family(), config, LoraSpec.read(lora))


def step(folder: Path, held: dict[str, np.ndarray], *, ocdbt: bool = True) -> Path:
    """One step as PeftTrainer's Orbax writes it."""
    item = folder / "model_params"
    item.mkdir(parents=True)
    tree = {}
    for name, value in held.items():
        keys = [*name.split("/"), "value"]
        key = ".".join(keys)
        store: Any = {"driver": "ocdbt", "base": f"file://{item}/", "path": key} if ocdbt else f"file://{item}/{key}/"
        opened = tensorstore.open(
            {"driver": "zarr", "kvstore": store, "store_data_equal_to_fill_value": True}, create=True,
            dtype=value.dtype, shape=value.shape,
        ).result()  # fmt: skip
        opened.write(value).result()
        tree[str(tuple(keys))] = {"key_metadata": [{"key": k, "key_type": 2} for k in keys]}
    metadata = {"tree_metadata": tree, "use_ocdbt": ocdbt, "use_zarr3": False}
    (item / "_METADATA").write_text(json.dumps({**metadata, "store_array_data_equal_to_fill_value": True}))
    return folder


def describe(folder: Path, config: dict[str, Any] = CONFIG, lora: dict[str, Any] | None = LORA) -> None:
    """The sidecar that a port leaves in its run's folder."""
    model = SimpleNamespace(porter=SimpleNamespace(id="tiny/gemma", family=family(), config=config))
    if lora is not None:
        model.lora = SimpleNamespace(spec=LoraSpec.read(lora), sites=sites(config, lora))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_model", "_folder", "_written"):
            patch.setattr(sidecar, name, None)
        sidecar.describe(model)
        described = sidecar._model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / sidecar.NAME).write_text(json.dumps(described))


def run(folder: Path, held: dict[str, np.ndarray] | None = None, *, ocdbt: bool = True, number: int = 5) -> Path:
    """A run's folder with its sidecar and one step."""
    step(folder / str(number), arrays() if held is None else held, ocdbt=ocdbt)
    describe(folder)
    return folder
