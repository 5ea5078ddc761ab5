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


def test_int8_is_bitsandbytes_but_for_ties_of_rounding(bitsandbytes: Any) -> None:
    import torch

    from porter.validate.torch_side.gpu_libraries.bitsandbytes_weights import held

    expected = bitsandbytes["int8_codes"] * (bitsandbytes["int8_largest"][:, None] / 127)
    got = held(torch.tensor(bitsandbytes["weight"]), "int8").numpy()
    assert (np.abs(got - expected) > 1e-6).mean() < 1e-3


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
