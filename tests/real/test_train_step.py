"""The step that returns only what it changed: the same training, with frozen weights left where they are."""

from __future__ import annotations

import functools
from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_frozen_weights_stay_and_training_is_the_same(tiny: Any, tiny_mesh: Any) -> None:
    import jax
    import numpy as np
    import optax
    from flax import nnx
    from transformers import AutoTokenizer
    from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

    from porter import runtime as rt

    mesh = tiny_mesh(2, 2)
    folder = tiny("qwen3", num_hidden_layers=1)
    rows = [{"text": "the quick brown fox " * (2 + i % 5)} for i in range(8)]
    batches = rt.SFTBatches(rows, AutoTokenizer.from_pretrained(folder), mesh, epochs=1, batch_size=2, accumulation=2)

    # Both programs round in their own ways: Adam would make steps of these, momentum and a schedule have a state, too.
    optimizer = optax.sgd(optax.linear_schedule(1.0, 0.1, 2), momentum=0.9)

    def trained(upstream: bool) -> tuple[list[float], Any, int]:
        model = rt.load_model(folder, mesh)
        # Dropout has random counters that the step must advance.
        model = rt.apply_peft(model, {"r": 4, "target_modules": "all-linear", "lora_dropout": 0.1}, mesh, seed=0)
        if upstream:
            del model.lora  # what tells the runtime's step from Tunix's
        weights = nnx.filterlib.All(nnx.Param, nnx.filterlib.Not(nnx.LoRAParam))
        before = [id(leaf) for leaf in jax.tree.leaves(nnx.state(model, weights))]
        config = TrainingConfig(max_steps=2, eval_every_n_steps=2, gradient_accumulation_steps=batches.accumulation)
        trainer = PeftTrainer(model, optimizer, config).with_gen_model_input_fn(rt.model_inputs)
        traced = []

        @functools.wraps(rt.token_loss)
        def loss(*given: Any, **inputs: Any) -> Any:
            traced.append(inputs)
            return rt.token_loss(*given, **inputs)

        trainer = trainer.with_loss_fn(loss)
        losses: list[float] = []
        buffer = trainer._buffer_metrics
        trainer._buffer_metrics = lambda *a, **k: (losses.append(float(k["loss"])), buffer(*a, **k))[1]
        with mesh:
            trainer.train(batches, batches.evaluation(rows[:2]))
        # Dropout's counters lie on the mesh before the first step as behind it: both are traced once.
        assert upstream or len(traced) == 2
        after = [id(leaf) for leaf in jax.tree.leaves(nnx.state(model, weights))]
        return (
            losses,
            jax.tree.leaves(nnx.state(model, nnx.LoRAParam)),
            sum(a == b for a, b in zip(before, after, strict=True)),
        )

    losses, adapters, kept = trained(upstream=False)
    theirs, expected, replaced = trained(upstream=True)
    assert len(losses) == 4 + 2 and losses == pytest.approx(theirs, rel=1e-6)
    assert len(set(losses)) == len(losses)
    for ours, other in zip(adapters, expected, strict=True):
        assert np.asarray(ours) == pytest.approx(np.asarray(other), rel=1e-5, abs=1e-8)
    assert kept > 10 and replaced == 0  # the test goes, and the patch, when Tunix keeps them itself
