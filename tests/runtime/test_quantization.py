"""Quantised weights against what bitsandbytes 0.50.2 computed on a CPU (tests/fixtures/make_bitsandbytes.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from qwix._src.core.qarray import HowToQuantize, QArray

from porter.runtime.arguments import argument_class, get_quantization_config
from porter.runtime.facts.families import find_family
from porter.runtime.lora.apply_lora import memory_footprint
from porter.runtime.models.quantization import (
    HeldWeight,
    Quantization,
    _product,
    dequantize,
    quantize,
    tiles,
    whole_rows,
)

FIXTURE = Path(__file__).parents[1] / "fixtures" / "bitsandbytes.npz"


@pytest.fixture(scope="module")
def bitsandbytes() -> Any:
    with np.load(FIXTURE) as packed:
        return dict(packed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_four_bits_are_bitsandbytes_bit_for_bit(bitsandbytes: Any, kind: str, dtype: str) -> None:
    weight = jnp.asarray(bitsandbytes["weight"]).astype(dtype)

    codes, scales = quantize(weight, kind, (1, 64))

    assert (codes.dtype, scales.dtype, scales.shape) == (jnp.uint4, jnp.dtype(dtype), (24, 3))
    got = np.asarray(dequantize(codes, scales, kind, dtype).astype(jnp.float32))
    assert (got == bitsandbytes[f"{kind}_{dtype}"]).all()
    assert not (got == bitsandbytes[f"{'fp4' if kind == 'nf4' else 'nf4'}_{dtype}"]).all()


def test_eight_bits_are_bitsandbytes_codes_and_scales(bitsandbytes: Any) -> None:
    codes, scales = quantize(jnp.asarray(bitsandbytes["weight"]), "int8", (1, 192))

    np.testing.assert_allclose(np.asarray(scales)[:, 0] * 127, bitsandbytes["int8_largest"], rtol=1e-6)
    assert (np.asarray(codes) == bitsandbytes["int8_codes"]).all()
    near, _ = quantize(jnp.asarray(bitsandbytes["ties"]), "int8", (1, 512))
    assert (np.asarray(near) == bitsandbytes["ties_codes"]).all()


def tensor(model: str, **sizes: Any) -> Any:
    family = find_family(model_type=sizes.pop("family"))
    assert family is not None
    basic = {"layers": 1, "embed": 256, "hidden": 512, "vocab": 32}
    return next(line.tensor for line in family.linears({**basic, **sizes}) if line.hf.endswith(model))


def test_a_block_is_64_inputs_of_one_output_over_as_many_axes_as_it_takes() -> None:
    sizes = {"heads": 8, "kv_heads": 8}
    assert tiles(tensor("q_proj", family="llama", head_dim=128, **sizes)) == (64, 1, 1)  # (embed, heads, head_dim)
    assert tiles(tensor("o_proj", family="llama", head_dim=128, **sizes)) == (1, 64, 1)  # (heads, head_dim, embed)
    assert tiles(tensor("o_proj", family="llama", head_dim=16, **sizes)) == (4, 16, 1)  # 4 heads of 16
    assert tiles(tensor("o_proj", family="llama", head_dim=96, **sizes)) == (1, 32, 1)  # 64 doesn't divide 96
    short = tensor("o_proj", family="llama", head_dim=4, **sizes)
    assert tiles(short) == (8, 4, 2)  # rows of 32: a block is two outputs
    assert whole_rows(short) == (8, 4, 1)


def test_each_part_of_a_fused_weight_has_its_own_blocks() -> None:
    gemma = tensor("k_proj", family="gemma2", heads=8, kv_heads=4, head_dim=64)
    assert gemma.shape_tunix == (2, 4, 256, 64)
    assert tiles(gemma) == (1, 1, 64, 1)


def test_a_tile_over_two_axes_is_the_block_of_the_flat_row(bitsandbytes: Any) -> None:
    weight = jnp.asarray(bitsandbytes["weight"])
    turned = weight.reshape(24, 12, 16).transpose(1, 2, 0)

    codes, scales = quantize(turned, "nf4", (4, 16, 1))

    flat = dequantize(codes, scales, "nf4", jnp.float32).transpose(2, 0, 1).reshape(24, 192)
    assert (np.asarray(flat) == bitsandbytes["nf4_float32"]).all()


def test_the_backward_pass_keeps_codes_not_the_weight(bitsandbytes: Any) -> None:
    codes, scales = quantize(jnp.asarray(bitsandbytes["weight"]).T, "nf4", (64, 1))
    held = HeldWeight(QArray(codes, scales, None, "nf4"), HowToQuantize(qtype="nf4", tiled_axes={0: 64}))
    x = jnp.ones((5, 192))

    product, pull = jax.vjp(lambda x: _product(jnp.matmul, x, held), x)

    floats = [leaf for leaf in jax.tree.leaves(pull) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert max((leaf.size for leaf in floats), default=0) < codes.size
    dequantised = dequantize(codes, scales, "nf4", jnp.float32)
    np.testing.assert_allclose(product, x @ dequantised, rtol=1e-5)
    np.testing.assert_allclose(pull(jnp.ones_like(product))[0], jnp.ones_like(product) @ dequantised.T, rtol=1e-4)


def test_what_asks_for_which_format() -> None:
    made = argument_class("BitsAndBytesConfig", None)
    assert Quantization.read(made(load_in_4bit=True)) == Quantization("fp4")  # bitsandbytes' default
    assert Quantization.read(made(load_in_4bit=True, bnb_4bit_quant_type="nf4")) == Quantization("nf4")
    assert Quantization.read({"load_in_8bit": True}) == Quantization("int8")
    assert Quantization.read({"load_in_4bit": False}) is None and Quantization.read(None) is None
    with pytest.raises(ValueError, match="choose one of nf4, fp4, int8"):
        Quantization.read("nf3")
    with pytest.raises(ValueError, match="only one can be used"):
        Quantization.read({"load_in_4bit": True, "load_in_8bit": True})
    with pytest.raises(ValueError, match="trains 16-bit weights"):
        Quantization.read(made(load_in_8bit=True, llm_int8_has_fp16_weight=True))
    with pytest.raises(ValueError, match="gptq"):
        Quantization.read({"quant_method": "gptq", "bits": 4})


@pytest.mark.parametrize(
    ("trl", "transformers", "anyway"),
    [(None, None, True), ("0.12.2", None, True), ("0.7.4", None, False), ("0.7.4", "4.38.0", True)],
)
def test_a_config_with_neither_flag_is_of_4_bits_from_transformers_4_38_on(
    trl: str | None, transformers: str | None, anyway: bool
) -> None:
    made = argument_class("BitsAndBytesConfig", trl, None, transformers)
    assert Quantization.read(made()) == (Quantization("fp4") if anyway else None)
    config = made(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    config.load_in_4bit = False
    assert Quantization.read(config) == (Quantization("nf4") if anyway else None)
    assert Quantization.read(made(load_in_8bit=True)) == Quantization("int8")


def test_a_model_config_asks_for_it_too() -> None:
    made = argument_class("ModelConfig", None)
    assert get_quantization_config(made()) is None
    assert Quantization.read(get_quantization_config(made(load_in_4bit=True))) == Quantization("nf4")  # TRL's default
    assert Quantization.read(get_quantization_config(made(load_in_8bit=True))) == Quantization("int8")


def test_skipped_layers_and_the_head_keep_their_type() -> None:
    family = find_family(model_type="llama")
    assert family is not None
    lines = family.linears({"layers": 2, "embed": 64, "hidden": 128, "vocab": 32, "heads": 4})
    taken = [line.hf for line in lines if Quantization("nf4", ("down_proj", "model.layers.1")).takes(line)]
    assert taken == [line.hf for line in lines if ".0." in line.hf and "down_proj" not in line.hf]


def test_a_held_weight_can_be_scaled() -> None:
    from qwix._src.core.qarray import HowToQuantize, QArray

    codes, scales = quantize(jnp.linspace(-1, 1, 128).reshape(64, 2), "nf4", (64, 1))
    held = HeldWeight(QArray(codes, scales, None, "nf4"), HowToQuantize(qtype="nf4"))
    scaled = (held * 0.25).array
    np.testing.assert_allclose(
        dequantize(scaled.qvalue, scaled.scale, "nf4", jnp.float32),
        0.25 * dequantize(codes, scales, "nf4", jnp.float32),
    )


def test_a_footprint_has_no_scales_which_bitsandbytes_keeps_beside_its_parameters() -> None:
    model = nnx.Module()
    codes, scales = quantize(jnp.ones((64, 2)), "nf4", (64, 1))
    array = QArray(nnx.Param(codes), nnx.Param(scales), None, "nf4")
    model.held = nnx.data(HeldWeight(array, HowToQuantize(qtype="nf4", tiled_axes={0: 64})))
    model.norm = nnx.Param(jnp.ones(10, jnp.bfloat16))
    assert memory_footprint(model) == 64 + 20
