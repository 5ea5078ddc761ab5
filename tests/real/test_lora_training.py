"""What keeps LoRA as it is in PEFT while Tunix trains: K and V apart, types, dropout, the optimizer's state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from porter.runtime.lora.apply_lora import adapters, apply_peft, separate_kv
from porter.runtime.models.load_model import load_model
from porter.runtime.models.rematerialize import remat
from porter.runtime.saving.adapters import adapter_state, load_adapter
from porter.runtime.training.step_norms import log_steps
from porter.validate.jax_side.read_jax import norm_of, recorded_norm

from .lora import SEVEN, batches, logits, small, token_loss, train

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name, targets", [("gemma3", SEVEN), ("gemma", ["k_proj", "v_proj"]), ("gemma3", ["v_proj"])])
def test_k_and_v_stay_apart_in_training(
    name: str, targets: list[str], tiny: Callable[..., Path], tiny_mesh: Any
) -> None:
    mesh = tiny_mesh(1, 2)
    model = apply_peft(small(tiny, mesh, name), {"r": 2, "lora_alpha": 8, "target_modules": targets}, mesh, seed=0)
    log_steps()
    kept = recorded_norm()  # what reaches clipping
    chain = optax.chain(separate_kv(model), kept, optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    trainer = train(model, mesh, chain, gradient_accumulation_steps=2)
    norms = trainer.metrics_logger.get_metric_history("", "grad_norm", "train")
    assert norms[-1] == pytest.approx(norm_of(trainer.optimizer.opt_state), rel=1e-6)
    assert all(value.any() for value in adapter_state(model).values())  # raises if B left its blocks


def test_an_adapter_that_mixes_k_and_v_is_no_peft_adapter(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 2)
    model = apply_peft(small(tiny, mesh), {"r": 2, "target_modules": SEVEN}, mesh, seed=0)
    train(model, mesh, optax.sgd(1e-2), steps=1)
    with pytest.raises(ValueError, match=r"put rt.separate_kv\(model\) first"):
        adapter_state(model)


def test_nothing_to_separate(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(2, 4)
    full = small(tiny, mesh, "qwen3")
    model = apply_peft(full, {"target_modules": SEVEN}, mesh, seed=0)
    tree = {"a": jnp.ones(3)}
    for transformation in (separate_kv(full), separate_kv(model)):
        assert transformation.update(tree, transformation.init(tree))[0] is tree


@pytest.mark.parametrize("name", ["gemma3", "gemma4"])  # one that computes in its weights' dtype, one with a dtype
def test_float32_adapters_over_a_bf16_base(name: str, tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    model = small(tiny, mesh, name, dtype=jnp.bfloat16)
    adapted = apply_peft(model, {"r": 4, "target_modules": SEVEN}, mesh, seed=0)
    ids = batches(1)[0]["ids"]
    with mesh:
        assert np.array_equal(logits(adapted, ids), logits(model, ids))  # B is zero: the casts are right
    random = {k: v + 0.1 for k, v in adapter_state(adapted).items()}
    load_adapter(adapted, random)
    trainer = train(adapted, mesh, optax.chain(separate_kv(adapted), optax.adam(1e-6)), steps=1)
    assert all(x.get_value().dtype == jnp.float32 for _, _, a, b in adapters(adapted) for x in (a, b))
    moments = [x for x in jax.tree.leaves(nnx.state(trainer.optimizer, nnx.optimizer.OptState)) if x.ndim]
    assert moments and all(x.dtype == jnp.float32 for x in moments)
    # Adam's first step is the learning rate: far below what bf16 resolves at these values (1/256 of them).
    changes = [np.abs(value - random[key]).max() for key, value in adapter_state(adapted).items()]
    assert max(changes) < 2e-6 and min(changes) > 5e-7


@pytest.mark.parametrize("size", ["hidden_size", "intermediate_size"])
@pytest.mark.parametrize(("name", "quantization"), [("qwen3", "nf4"), ("llama3", "int8"), ("qwen3", None)])
def test_an_adapter_as_wide_as_its_layer_is_trained(
    name: str, quantization: str | None, size: str, tiny: Callable[..., Path], tiny_mesh: Any
) -> None:
    base, mesh = tiny(name, num_hidden_layers=1), tiny_mesh(1, 1)
    rank = json.loads((base / "config.json").read_text())[size]
    model = load_model(str(base), mesh, quantization=quantization)
    model = apply_peft(model, {"r": rank, "target_modules": SEVEN}, mesh, seed=0)
    ids = jnp.asarray(batches(1)[0]["ids"])
    with mesh:
        gradient = nnx.jit(nnx.grad(lambda m: token_loss(m, ids), argnums=nnx.DiffState(0, nnx.LoRAParam)))(model)
    largest = {path: float(jnp.abs(value).max()) for path, value in jax.tree.leaves_with_path(gradient)}
    of_b = [value for path, value in largest.items() if "_lora_b" in jax.tree_util.keystr(path)]
    assert len(of_b) == len(list(adapters(model))) and min(of_b) > 0


@pytest.mark.parametrize("shape", [(2, 4), (8, 1)])
def test_the_optimizer_state_lies_like_the_adapters(
    shape: tuple[int, int], tiny: Callable[..., Path], tiny_mesh: Any
) -> None:
    mesh = tiny_mesh(*shape)
    model = remat(apply_peft(small(tiny, mesh), {"r": 4, "target_modules": SEVEN}, mesh, seed=0))
    chain = optax.chain(separate_kv(model), optax.adamw(1e-3))
    trainer = train(model, mesh, chain, steps=1, gradient_accumulation_steps=2)
    placed: dict[tuple[int, ...], set[str]] = {}
    sharded = 0
    for path, _, a, b in adapters(model):
        for adapter in (a, b):
            value = adapter.get_value()
            assert value.sharding.mesh.shape == mesh.shape, path
            placed.setdefault(value.shape, set()).add(str(_canonical(value)))
            sharded += value.sharding.shard_shape(value.shape) != value.shape
    assert sharded > 4
    state = [x for x in jax.tree.leaves(nnx.state(trainer.optimizer, nnx.optimizer.OptState)) if x.ndim > 1]
    assert len(state) >= 3 * 2 * len(list(adapters(model)))  # two moments and the accumulated gradient
    for x in state:
        assert str(_canonical(x)) in placed[x.shape]


def _canonical(x: jax.Array) -> tuple[int, ...]:
    return x.sharding.shard_shape(x.shape)


@pytest.mark.parametrize("name, checkpointing", [("qwen3", False), ("qwen3", True), ("gemma3", True), ("gemma4", True)])
def test_dropout_in_training_only(name: str, checkpointing: bool, tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    base = small(tiny, mesh, name)

    def adapted(dropout: float) -> nnx.Module:
        settings = {"r": 4, "target_modules": SEVEN, "init_lora_weights": False, "lora_dropout": dropout}
        model = apply_peft(base, settings, mesh, seed=0)
        return remat(model) if checkpointing else model

    plain, dropped = adapted(0.0), adapted(0.5)
    assert not nnx.state(plain, nnx.RngState) and nnx.state(dropped, nnx.RngState)
    ids = jnp.asarray(batches(1)[0]["ids"])
    loss = nnx.jit(lambda m: token_loss(m, ids))
    step = nnx.jit(nnx.value_and_grad(lambda m: token_loss(m, ids), argnums=nnx.DiffState(0, nnx.LoRAParam)))
    with mesh:
        evaluated = float(loss(plain))
        assert float(loss(dropped)) == evaluated
        trained = [float(step(dropped)[0]) for _ in range(40)]
        assert len({evaluated, *trained}) == 41  # another mask every step
        assert float(loss(dropped)) == evaluated
    assert abs(np.mean(trained) - evaluated) < 4 * np.std(trained)


def test_dropout_is_off_in_the_trainers_evaluation(tiny: Callable[..., Path], tiny_mesh: Any) -> None:
    mesh = tiny_mesh(1, 1)
    settings = {"r": 4, "target_modules": SEVEN, "init_lora_weights": False, "lora_dropout": 0.5}
    model = apply_peft(small(tiny, mesh, "qwen3"), settings, mesh, seed=0)
    trainer = train(model, mesh, optax.sgd(0.0), steps=1, evaluate=batches(1))
    with mesh:
        expected = float(nnx.jit(token_loss)(model, batches(1)[0]["ids"]))
    assert float(trainer.metrics_logger.get_metric("", "loss", "eval")) == pytest.approx(expected, rel=1e-6)
    assert float(trainer.metrics_logger.get_metric("", "loss", "train")) != pytest.approx(expected, rel=1e-3)
