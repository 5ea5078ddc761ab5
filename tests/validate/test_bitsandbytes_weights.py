"""The source's quantised base: bitsandbytes' values, in the layers that transformers would hand to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

FIXTURE = Path(__file__).parents[1] / "fixtures" / "bitsandbytes.npz"

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def bitsandbytes() -> Any:
    with np.load(FIXTURE) as packed:
        return dict(packed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_the_formula_is_bitsandbytes_bit_for_bit(bitsandbytes: Any, kind: str, dtype: str) -> None:
    import torch

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import held

    weight = torch.tensor(bitsandbytes["weight"]).to(getattr(torch, dtype))
    assert (held(weight, kind).float().numpy() == bitsandbytes[f"{kind}_{dtype}"]).all()


def test_int8_is_bitsandbytes_code_for_code(bitsandbytes: Any) -> None:
    import torch

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import held

    expected = bitsandbytes["int8_codes"] * (bitsandbytes["int8_largest"][:, None] / 127)
    np.testing.assert_allclose(held(torch.tensor(bitsandbytes["weight"]), "int8").numpy(), expected, rtol=1e-6)

    near = bitsandbytes["ties"].astype(np.float32)
    assert len(near)
    got = held(torch.tensor(near), "int8").numpy() / (np.abs(near).max(axis=1, keepdims=True) / 127)
    assert (np.round(got) == bitsandbytes["ties_codes"]).all()


def test_the_head_and_the_embedding_stay() -> None:
    import torch
    import transformers

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import hold
    from tests.tiny import hf_model

    model = hf_model("llama3")
    before = {name: value.clone() for name, value in model.named_parameters()}
    hold(model, transformers.BitsAndBytesConfig(load_in_4bit=True))
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed and all("_proj" in name for name in changed)
    assert len(changed) == sum("_proj" in name for name in before)


@pytest.mark.parametrize(("release", "form"), [("4.37.2", None), ("4.38.0", "nf4"), ("5.12.1", "nf4")])
def test_a_config_without_a_flag_is_of_4_bits_in_newer_releases(
    monkeypatch: pytest.MonkeyPatch, release: str, form: str | None
) -> None:
    import transformers

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import format_of

    monkeypatch.setattr(transformers, "__version__", release)
    off = transformers.BitsAndBytesConfig(load_in_4bit=False, bnb_4bit_quant_type="nf4")
    assert format_of(off) == form
    assert format_of(transformers.BitsAndBytesConfig(load_in_8bit=True)) == "int8"


def test_each_model_says_in_what_it_is_held() -> None:
    import peft
    import transformers

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import held_format, hold
    from tests.tiny import hf_model

    held, plain = (
        peft.get_peft_model(hf_model("llama3"), peft.LoraConfig(target_modules=["q_proj"])) for _ in range(2)
    )
    hold(held.get_base_model(), transformers.BitsAndBytesConfig(load_in_8bit=True))
    assert (held_format(held), held_format(plain)) == ("int8", None)


def test_our_values_are_the_same_as_the_port_loads(bitsandbytes: Any) -> None:
    import jax.numpy as jnp
    import torch

    from porter.runtime.models.quantization import dequantize, quantize
    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import held

    weight = bitsandbytes["weight"]
    for kind, tile in (("nf4", (1, 64)), ("fp4", (1, 64)), ("int8", (1, 192))):
        theirs = held(torch.tensor(weight), kind).numpy()
        codes, scales = quantize(jnp.asarray(weight), kind, tile)
        np.testing.assert_allclose(dequantize(codes, scales, kind, jnp.float32), theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("release", "seen"), [("0.7.0", True), ("0.25.1", True), ("0.26.0", False)])
def test_a_trainer_of_trl_prepares_a_quantised_base(release: str, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that it does not prepare has no gradient under checkpointing; from 0.26 on it casts by the same flag."""
    import transformers

    from porter.validate.torch_side.gpu_libraries import bitsandbytes
    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import HELD

    for name in ("is_loaded_in_4bit", "is_loaded_in_8bit"):  # and is put back
        monkeypatch.setattr(transformers.PreTrainedModel, name, False, raising=False)
    monkeypatch.setattr(bitsandbytes.metadata, "version", lambda library: release)
    bitsandbytes.patch_flags()
    model = transformers.PreTrainedModel.__new__(transformers.PreTrainedModel)
    model.__dict__[HELD] = "nf4"
    asks = "def __init__(model): return getattr(model, 'is_loaded_in_8bit', False), model.is_loaded_in_4bit"
    trainer: dict[str, Any] = {"__name__": "trl.trainer.sft_trainer"}
    exec(compile(asks, "/site-packages/trl/trainer/sft_trainer.py", "exec"), trainer)
    assert trainer["__init__"](model) == (False, seen)


def test_fields_beside_load_in_4bit_are_the_configs() -> None:
    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import asked_in, format_of

    given = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True, "use_cache": False}
    config = asked_in(given)
    assert given == {"use_cache": False} and format_of(config) == "nf4" and config.bnb_4bit_use_double_quant
    assert format_of(asked_in({"load_in_4bit": True})) == "fp4"
    given = {"load_in_4bit": False, "bnb_4bit_quant_type": "nf4"}
    assert asked_in(given) is None and given == {"bnb_4bit_quant_type": "nf4"}
    assert asked_in({"quantization_config": config, "load_in_8bit": False}) is config
