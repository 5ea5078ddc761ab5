"""Attention of a block of queries at a time computes what whole rows do: forward, backward, packed, under remat."""

from __future__ import annotations

import numpy as np
import pytest

from .long import mostly_long

pytestmark = pytest.mark.real

LENGTH, BLOCK = 64, 24  # the last block is shorter, and the tiny models' windows of 8 end within a block


@pytest.mark.parametrize("name", mostly_long(["gemma4_keqv", "llama3"], short=["gemma4_keqv"]))
def test_packed_rows_have_the_same_loss_and_gradients(name, tiny, tiny_mesh):
    """Two documents and padding in each row; the adapters' gradients, with remat where the block is recomputed."""
    import jax
    from flax import nnx

    from porter import runtime as rt

    rng = np.random.default_rng(0)
    segments = np.repeat([[1, 2, 0]], 2, 0).repeat([30, 25, 9], 1).astype(np.int32)
    segments[1] = np.repeat([1, 2], [10, 54])
    ids = rng.integers(3, 512, (2, LENGTH)).astype(np.int32)
    starts = np.maximum.accumulate(np.where(np.diff(segments, axis=1, prepend=-1) != 0, np.arange(LENGTH), 0), 1)
    batch = {
        "input_tokens": ids,
        "labels": np.where(segments > 0, ids, -100),
        "positions": (np.arange(LENGTH) - starts).astype(np.int32),
        "segment_ids": segments,
        "scale": np.full(2, 1 / 110, np.float32),
        "documents": np.array([2, 2], np.int32),
    }
    mesh = tiny_mesh(2, 4)
    model = rt.load_model(tiny(name, num_hidden_layers=2), mesh)  # the last two: a local and a global one

    def loss(model):
        return rt.token_loss(model, **rt.model_inputs(batch))

    with mesh:
        whole, gradient = nnx.jit(nnx.value_and_grad(loss))(model)
        again, blocked = nnx.jit(nnx.value_and_grad(loss))(rt.attend_in_blocks(rt.remat(model), BLOCK))
    assert abs(float(whole - again)) < 2e-6
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(blocked), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
