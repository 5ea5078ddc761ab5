"""Checkpoints that can't be loaded, and what is said of each."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytestmark = pytest.mark.real


def broken(tiny, tmp_path, change=lambda arrays: None, **config):
    """A copy of the tiny qwen3 with its tensors and its config.json changed."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(tiny("qwen3"), tmp_path, dirs_exist_ok=True)
    arrays = load_file(tmp_path / "model.safetensors")
    change(arrays)
    save_file(arrays, tmp_path / "model.safetensors")
    read = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**read, **config}))
    return tmp_path


def test_missing_and_superfluous_tensors_are_named_together(tiny, tiny_mesh, tmp_path):
    from porter.runtime.models.load_model import load_model

    def change(arrays):
        del arrays["model.layers.1.self_attn.k_norm.weight"]
        arrays["model.layers.0.self_attn.q_proj.bias"] = np.zeros(128, np.float32)
        arrays["model.norm.weight"] = np.ones(32, np.float32)
        arrays["model.layers.0.mlp.up_proj.weight"] = np.zeros((128, 64), np.uint8)

    with pytest.raises(ValueError) as error:
        load_model(broken(tiny, tmp_path, change), tiny_mesh(1, 1))
    assert str(error.value).split("\n  ")[1:] == [
        "missing: model.layers.1.self_attn.k_norm.weight",
        "no place in Tunix's Qwen3: model.layers.0.self_attn.q_proj.bias",
        "wrong shape: model.norm.weight is (32,), not (64,)",
        "quantised or unreadable: model.layers.0.mlp.up_proj.weight is U8",
    ]


def test_an_unknown_family(tiny, tiny_mesh, tmp_path):
    from porter.runtime.facts.family import UnknownFamily
    from porter.runtime.models.load_model import load_model

    with pytest.raises(UnknownFamily, match=r"MixtralForCausalLM is no model family that tpu-port knows\. It knows"):
        load_model(broken(tiny, tmp_path, architectures=["MixtralForCausalLM"]), tiny_mesh(1, 1))


def test_a_quantised_checkpoint(tiny, tiny_mesh, tmp_path):
    from porter.runtime.models.load_model import load_model

    quantised = broken(tiny, tmp_path, quantization_config={"quant_method": "bitsandbytes"})
    with pytest.raises(ValueError, match="holds bitsandbytes weights: load the model they were made from"):
        load_model(quantised, tiny_mesh(1, 1))


def test_a_mirror_in_4_bits_is_loaded_by_what_it_was_made_from(tiny, tiny_mesh, monkeypatch):
    from porter.runtime.models import load_model as loading

    asked = []
    monkeypatch.setattr(loading, "_folder", lambda *given: asked.append(given) or tiny("qwen3"))
    with pytest.warns(UserWarning, match="unsloth/Qwen3-4B is loaded, held in nf4"):
        model = loading.load_model("unsloth/Qwen3-4B-unsloth-bnb-4bit", tiny_mesh(1, 1), revision="main")
    assert asked == [("unsloth/Qwen3-4B", None)]
    assert model.porter.id == "unsloth/Qwen3-4B" and model.porter.quantization.qtype == "nf4"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("qwen3", "layers/0/attn/k_proj/w: kv_heads = 4 does not divide by tp = 8"),
        ("gemma4_keqv", "layers/2/attn/k_einsum/w: global_kv_heads = 4 does not divide by tp = 8"),
    ],
)
def test_a_mesh_that_does_not_divide_the_heads(name, said, tiny, tiny_mesh):
    from porter.runtime.models.load_model import load_model

    with pytest.raises(ValueError) as error:
        load_model(tiny(name), tiny_mesh(1, 8))
    assert said in str(error.value)
    assert "meshes of 8 devices that fit: fsdp=8,tp=1, fsdp=4,tp=2, fsdp=2,tp=4" in str(error.value)


def test_a_folder_without_a_model(tmp_path, tiny_mesh):
    from porter.runtime.models.load_model import load_model

    with pytest.raises(FileNotFoundError, match="is no folder, and no Hub id either"):
        load_model(tmp_path / "nothing", tiny_mesh(1, 1))
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="it is a PEFT adapter: load its base model"):
        load_model(tmp_path, tiny_mesh(1, 1))
