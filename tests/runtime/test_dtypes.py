"""What scripts have in hand for a dtype, and the JAX type that it means."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from porter.runtime.facts.dtypes import jax_type


@pytest.mark.real
def test_types_of_jax_and_torch_and_their_names() -> None:
    import torch

    assert all(jax_type(same) is jnp.bfloat16 for same in (jnp.bfloat16, torch.bfloat16, "bfloat16", torch.float16))
    assert all(jax_type(same) is jnp.bfloat16 for same in (jnp.float16, jnp.dtype("bfloat16"), "torch.float16"))
    assert all(jax_type(same) is jnp.float32 for same in (np.float32, "float32", torch.float32, jnp.dtype("float32")))
    assert all(jax_type(same) is None for same in (None, "auto", "None"))
    with pytest.raises(ValueError, match="'float64': expected auto, float32, bfloat16 or float16"):
        jax_type(np.float64)
