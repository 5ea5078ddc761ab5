"""Adapters merged into their base, before training and behind it, beside PEFT."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import peft
import pytest
import torch
import transformers

from porter.runtime.lora.apply_lora import apply_peft
from porter.runtime.models.load_model import load_model
from porter.runtime.saving.adapters import adapter_state, load_adapter, save_adapter
from porter.runtime.saving.merging import merge_adapter, merge_and_unload
from porter.runtime.saving.save_model import save_model

from .long import mostly_long
from .lora import LAYOUTS, SEVEN, batches, fitting, logits

pytestmark = pytest.mark.real

Weights = dict[str, torch.Tensor]


def adapted(base: Path, mesh: Any, lora: dict[str, Any] | None = None, **load: Any) -> Any:
    """A model with adapters that do something: PEFT's begin with a B of 0."""
    settings = {"r": 4, "target_modules": SEVEN} | (lora or {})
    model = apply_peft(load_model(str(base), mesh, **load), settings, mesh, seed=3)
    dice = np.random.default_rng(0)
    load_adapter(model, {key: dice.normal(size=value.shape) for key, value in adapter_state(model).items()})
    return model


def saved(folder: Path) -> Weights:
    """The weights of a folder as transformers reads them, in the type that it says."""
    weights: Weights = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").state_dict()
    return weights


def merged_by_peft(base: Path, adapter: Path) -> Weights:
    """PEFT's, in float32."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    weights: Weights = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload().state_dict()
    return weights


def check_same(found: Weights, expected: Weights) -> None:
    assert expected.keys() == found.keys()
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert max(float((expected[key] - found[key]).abs().max()) for key in expected) < 1e-5


@pytest.mark.parametrize("name", ["gemma3", "qwen3"])
def test_a_merged_model_is_pefts_merged_model(
    name: str, tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path
) -> None:
    base = tiny(name, num_hidden_layers=2)
    model = adapted(base, tiny_mesh(2, 2))

    merge_and_unload(model).save_pretrained(tmp_path / "merged", safe_serialization=True)

    save_adapter(model, tmp_path / "adapter")
    found = saved(tmp_path / "merged")
    check_same(found, merged_by_peft(base, tmp_path / "adapter"))

    merge_and_unload(model).to("cpu", dtype=jnp.float16).save_pretrained(tmp_path / "half")
    half = saved(tmp_path / "half")
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    assert all(torch.equal(half[key], found[key].half()) for key in found)


def test_a_base_that_is_rounded_is_merged_as_its_checkpoint_has_it(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path
) -> None:
    """A GPU run loads float32, multiplies in bfloat16 under autocast, and merges in float32."""
    base = tiny("qwen3", num_hidden_layers=2)
    model = adapted(base, tiny_mesh(2, 2), dtype=jnp.bfloat16)
    embedding = model.embedder.input_embedding
    embedding.set_value(embedding.get_value().at[0].set(2.0))  # as trained beside the adapters

    save_model(merge_and_unload(model, dtype=jnp.float32), tmp_path / "merged")
    merge_and_unload(model, dtype=jnp.float32).half().save_pretrained(tmp_path / "half")

    save_adapter(model, tmp_path / "adapter")
    expected = merged_by_peft(base, tmp_path / "adapter")
    for folder, bound, dtype in (("merged", 1e-5, torch.float32), ("half", 2e-3, torch.float16)):
        found = saved(tmp_path / folder)
        assert {tensor.dtype for tensor in found.values()} == {dtype}
        for key in expected.keys() - {"model.embed_tokens.weight", "lm_head.weight"}:
            torch.testing.assert_close(found[key].float(), expected[key], atol=bound, rtol=bound)
        assert float(found["model.embed_tokens.weight"][0].float().min()) == 2.0


def test_adapters_of_a_quantised_base_are_added_to_its_checkpoint(
    tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path
) -> None:
    base = tiny("gemma3", num_hidden_layers=2)
    model = adapted(base, tiny_mesh(2, 2), quantization="nf4")

    merge_and_unload(model, unquantized=True).save_pretrained(tmp_path / "merged")

    save_adapter(model, tmp_path / "adapter")
    check_same(saved(tmp_path / "merged"), merged_by_peft(base, tmp_path / "adapter"))


@pytest.mark.parametrize(("name", "quantization"), [("gemma3", "nf4"), ("qwen3", "int8")])
def test_a_base_in_fewer_bits_is_merged_as_it_was_trained(
    name: str, quantization: str, tiny: Callable[..., Path], tiny_mesh: Callable[[int, int], Any], tmp_path: Path
) -> None:
    base, mesh = tiny(name, num_hidden_layers=2), tiny_mesh(2, 2)
    model = adapted(base, mesh, {"target_modules": ["q_proj", "down_proj"]}, quantization=quantization)
    merge_and_unload(model).save_pretrained(tmp_path / "merged")

    merged, full = load_model(tmp_path / "merged", mesh), load_model(str(base), mesh)
    ids = batches(1)[0]["ids"]
    with mesh:
        expected, found, other = logits(model, ids), logits(merged, ids), logits(full, ids)
    assert np.abs(expected - found).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(expected - other).max() > 1e-2 * np.abs(expected).max()
    assert json.loads((tmp_path / "merged" / "config.json").read_text()).get("dtype") == "float32"


@pytest.mark.parametrize("name", mostly_long(LAYOUTS, short=("llama3", "gemma")))
def test_a_saved_adapter_is_merged_before_training(
    name: str, tiny: Callable[..., Path], tiny_mesh: Any, tmp_path: Path
) -> None:
    base, mesh = tiny(name), tiny_mesh(*fitting(name))
    save_adapter(adapted(base, mesh, {"r": 2, "lora_alpha": 6}), tmp_path / "adapter")

    model = load_model(base, mesh)
    assert merge_adapter(model, tmp_path / "adapter", mesh) is model

    save_model(model, tmp_path / "merged")
    check_same(saved(tmp_path / "merged"), merged_by_peft(base, tmp_path / "adapter"))
    again = apply_peft(model, {"r": 2, "target_modules": ["q_proj"]}, mesh, seed=0)
    with pytest.raises(ValueError, match="before new ones"):
        merge_adapter(again, tmp_path / "adapter", mesh)
