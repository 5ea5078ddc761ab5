"""What scripts have in hand for a dtype, and the JAX type that it means."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from porter.runtime.models.dtypes import jax_type
from porter.runtime.models.load_model import _checkpoint_dtype


@pytest.mark.real
def test_types_of_jax_and_torch_and_their_names() -> None:
    import torch

    assert all(jax_type(same) is jnp.bfloat16 for same in (jnp.bfloat16, torch.bfloat16, "bfloat16", torch.float16))
    assert all(jax_type(same) is jnp.bfloat16 for same in (jnp.float16, jnp.dtype("bfloat16"), "torch.float16"))
    assert all(jax_type(same) is jnp.float32 for same in (np.float32, "float32", torch.float32, jnp.dtype("float32")))
    assert all(jax_type(same) is None for same in (None, "auto", "None"))
    with pytest.raises(ValueError, match="'float64': expected auto, float32, bfloat16 or float16"):
        jax_type(np.float64)


@pytest.mark.parametrize(("said", "held"), [("float16", "bfloat16"), ("torch.float16", "bfloat16"), ("float32",) * 2])
def test_a_checkpoint_of_float16_is_loaded_in_bfloat16(said: str, held: str, tmp_path: Path) -> None:
    assert _checkpoint_dtype({"torch_dtype": said}, tmp_path) == held
    save_file({"norm.weight": np.ones(2, said.removeprefix("torch."))}, tmp_path / "model.safetensors")
    assert _checkpoint_dtype({}, tmp_path) == held
