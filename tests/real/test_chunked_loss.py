"""The loss with the head in chunks against the whole head: the same value, the same gradients of the adapters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tiny import VOCAB

from .long import mostly_long

pytestmark = pytest.mark.real


# Softcaps of both kinds; tied and untied.
@pytest.mark.parametrize("family", mostly_long(["gemma2", "gemma4", "llama3"], short=["gemma4", "llama3"]))
@pytest.mark.parametrize("chunks", [3])
def test_chunks_change_neither_loss_nor_gradients(tiny: Any, tiny_mesh: Any, family: str, chunks: int) -> None:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from porter.runtime.lora.apply_lora import apply_peft
    from porter.runtime.losses.token_loss import chunked_token_loss, model_inputs, token_loss
    from porter.runtime.models.load_model import load_model
    from porter.runtime.models.rematerialize import remat

    mesh = tiny_mesh(1, 1)
    model = load_model(tiny(family, num_hidden_layers=1), mesh, dtype=jnp.float32)
    model = remat(apply_peft(model, {"r": 4, "target_modules": "all-linear", "init_lora_weights": False}, mesh, seed=0))
    config = model.config
    tokens = np.random.default_rng(0).integers(0, 500, (2, 64)).astype(np.int32)
    batch = {
        "input_tokens": tokens,
        "labels": np.where(tokens % 3 == 0, -100, tokens),
        "positions": np.tile(np.arange(64, dtype=np.int32), (2, 1)),
        "segment_ids": np.ones((2, 64), np.int32),
        "scale": np.asarray([0.01, 0.02], np.float32),
        "smoothing": np.asarray([0.1, 0.1], np.float32),
    }

    def result(loss: Any) -> tuple[list[float], list[Any]]:
        telling = loss.with_metrics({"accuracy": batch["scale"], "entropy": batch["scale"]})
        step = nnx.jit(nnx.value_and_grad(telling, argnums=nnx.DiffState(0, nnx.LoRAParam), has_aux=True))
        inputs = model_inputs(batch)  # by name, as PeftTrainer calls a loss
        with mesh:
            (value, told), gradients = step(model, **inputs)
        return [float(each) for each in (value, told["mean_token_accuracy"], told["entropy"])], jax.tree.leaves(
            gradients
        )

    whole, expected = result(token_loss)
    parts, gradients = result(chunked_token_loss(chunks))
    assert parts == pytest.approx(whole, rel=1e-6) and whole[-1] > 0
    for ours, theirs in zip(gradients, expected, strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-6 * float(np.abs(theirs).max() + 1e-9))
    assert model.config is config  # the softcap is back, and so is the head:
    states = jnp.ones((1, 2, config.embed_dim))
    logits = model.embedder.decode(states) if getattr(model, "lm_head", None) is None else model.lm_head(states)
    assert logits.shape[-1] == VOCAB
