"""Small models with LoRA, in PEFT and in Tunix: adapters with random values, logits, a few steps of training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import peft
import torch
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter.runtime.models.load_model import load_model
from tests import tiny as models

SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


FAMILIES = list(models.MODELS)
LAYOUTS = [name for name in FAMILIES if name != "mistral"]  # whose layers are llama3's


def fitting(name: str) -> tuple[int, int]:
    """A mesh that a family's tiny model divides."""
    return (8, 1) if name in ("gemma_mqa", "gemma4_ple") else (2, 4)


def small(tiny: Callable[..., Path], mesh: Any, name: str = "gemma3", **load: Any) -> nnx.Module:
    return load_model(tiny(name, num_hidden_layers=1), mesh, **load)


def logits(model: nnx.Module, ids: np.ndarray) -> np.ndarray:
    rows, length = ids.shape
    positions = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
    mask = np.tile(np.tril(np.ones((length, length), bool)), (rows, 1, 1))
    out = nnx.jit(lambda m, i, p, a: m(i, p, None, a)[0])(model, ids, positions, mask)
    return np.asarray(out, np.float32)


def few(name: str) -> dict[str, int]:
    """Settings of a tiny model with a layer of each layout: Gemma 3's local and global ones hold the same weights."""
    return {"num_hidden_layers": 2} if name == "gemma3" else {}


def random_adapter(name: str, settings: dict[str, Any]) -> tuple[Any, dict[str, np.ndarray]]:
    """A tiny model in PEFT, see `few`, with a random adapter, B included, and its state dict."""
    wrapped = peft.get_peft_model(models.hf_model(name, **few(name)), peft.LoraConfig(**settings))
    torch.manual_seed(1)
    for key, parameter in wrapped.named_parameters():
        if "lora_" in key:
            torch.nn.init.normal_(parameter, std=0.1)
    return wrapped, {k: v.numpy() for k, v in peft.get_peft_model_state_dict(wrapped).items()}


def token_loss(model: nnx.Module, ids: jax.Array) -> jax.Array:
    rows, length = ids.shape
    positions = jnp.broadcast_to(jnp.arange(length), ids.shape)
    mask = jnp.broadcast_to(jnp.tril(jnp.ones((length, length), bool)), (rows, length, length))
    scores = model(ids, positions, None, mask)[0][:, :-1].astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(scores, ids[:, 1:]).mean()


def batches(count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [{"ids": rng.integers(8, models.VOCAB - 16, (8, 16)).astype(np.int32)} for _ in range(count)]


def train(
    model: nnx.Module, mesh: Any, optimizer: Any, steps: int = 3, evaluate: Any = None, **config: Any
) -> PeftTrainer:
    settings = TrainingConfig(eval_every_n_steps=10**9, max_steps=steps, **config)
    trainer = PeftTrainer(model, optimizer, settings).with_loss_fn(token_loss)
    with mesh:
        trainer.train(batches(steps * (config.get("gradient_accumulation_steps") or 1)), evaluate)
    return trainer
