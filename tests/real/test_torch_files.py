"""Checkpoints in torch's own files beside the same ones in safetensors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.real


def as_torchs(folder: Path, into: Path, *, zipped: bool = True) -> Path:
    """The same model as transformers before 4.35 saved it: in parts, with a buffer of then and another file beside."""
    import torch
    from safetensors.torch import load_file

    into.mkdir()
    for file in folder.glob("*.json"):
        if "safetensors" not in file.name:
            shutil.copy(file, into)
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    names, weight_map = sorted(tensors), {}
    for part in range(2):
        name = f"pytorch_model-0000{part + 1}-of-00002.bin"
        torch.save({n: tensors[n] for n in names[part::2]}, into / name, _use_new_zipfile_serialization=zipped)
        weight_map.update(dict.fromkeys(names[part::2], name))
    (into / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    torch.save({"not": "weights"}, into / "training_args.bin")
    return into


def values(model: Any) -> dict[str, tuple[Any, np.ndarray]]:
    from flax import nnx

    state = nnx.to_flat_state(nnx.state(model))
    return {"/".join(map(str, path)): (leaf.get_value().sharding, np.asarray(leaf.get_value())) for path, leaf in state}


@pytest.mark.parametrize(("name", "dtype", "quantization"), [("llama3", "float16", None), ("gemma", "bfloat16", "nf4")])
def test_they_are_loaded_and_saved_alike(
    name: str, dtype: str, quantization: str | None, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    import jax.numpy as jnp

    from porter.runtime.models.load_model import load_model
    from porter.runtime.saving.save_model import tensors_of

    own = tiny(name, dtype=dtype)
    torchs = as_torchs(own, tmp_path / "torchs", zipped=quantization is None)
    asked: dict[str, Any] = {"dtype": jnp.bfloat16, "quantization": quantization}
    models = [load_model(folder, tiny_mesh(2, 2), **asked) for folder in (own, torchs)]
    wanted, found = map(values, models)
    assert wanted.keys() == found.keys()
    for path, (sharding, array) in wanted.items():
        assert found[path][0] == sharding and found[path][1].dtype == array.dtype, path
        np.testing.assert_array_equal(found[path][1], array)
    saved = [dict(tensors_of(model, unquantized=True)) for model in models]
    assert set(saved[0]) == set(saved[1])
    assert all(np.array_equal(saved[0][tensor], saved[1][tensor]) for tensor in saved[0])


def test_without_torch_the_error_says_what_to_do(
    tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from porter.runtime.models import torch_files
    from porter.runtime.models.load_model import load_model

    torchs = as_torchs(tiny("llama3"), tmp_path / "torchs")
    monkeypatch.setattr(torch_files, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pytorch_model-00001-of-00002.bin is torch's own.*pip install torch"):
        load_model(torchs, tiny_mesh(1, 1))


def test_an_adapter_of_older_peft(tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from porter.runtime.models.load_model import load_model
    from porter.runtime.saving.adapters import adapter_state, apply_adapter

    base = AutoModelForCausalLM.from_pretrained(tiny("llama3"))
    peft = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    peft.save_pretrained(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    torch.save(tensors, tmp_path / "adapter_model.bin")
    file.unlink()
    mesh = tiny_mesh(1, 1)
    state = adapter_state(apply_adapter(load_model(tiny("llama3"), mesh), tmp_path, mesh))
    assert set(state) == set(tensors)
    assert all(np.array_equal(np.asarray(state[name]), tensors[name].numpy()) for name in tensors)
