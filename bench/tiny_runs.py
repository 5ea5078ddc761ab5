"""Small trainings whose logs `bench/compare.py` judges: a transformer of 50,000 weights, many runs at once.

One loop in JAX does as TRL's trainers do (order, accumulation over tokens, clipping, AdamW, cosine with warmup, LoRA
or all weights); what a run gets wrong is a number of its own, so that all runs of one kind are one program. Each
leaves transformers' `trainer_state.json` and what lies beside it, or a port's record.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 48, 48, 4, 2, 26
STEPS, ROWS, MICRO, ACCUMULATION, WARMUP, RANK = 200, 640, 4, 2, 10, 4
END = 3  # the token that ends an answer
SHAPES = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
LIMITS = {"lora": 0.5, "full": 0.8}  # max_grad_norm, which is passed in part of the steps
RATES = {"lora": 1e-2, "full": 1e-3}


@dataclass(frozen=True)
class Recipe:
    """One run of a kind, "lora" or "full".

    `seed` is that of dropout, `start` that of the adapters; `order` the data's. The rest are the mistakes: `clip` as a
    share of the recipe's limit, 0 for none; `whole` trains on prompts, too; `early` steps that the schedule is ahead;
    without `ends` an answer's last token isn't trained.
    """

    name: str
    kind: str = "lora"
    bf16: bool = True
    seed: int = 0
    start: int = 0
    clip: float = 1.0
    decay: float = 0.01
    whole: bool = False
    alpha: float = 8.0
    early: int = 0
    shuffled: bool = True
    layers: int = LAYERS
    means: bool = False
    ends: bool = True
    order: int = 42
    warmup: int = WARMUP

    def rate(self, step: int) -> float:
        return RATES[self.kind] * schedule(step + self.early, self.warmup)


def train(recipes: Sequence[Recipe]) -> list[dict[str, Any]]:
    """The history and the settings of runs of one kind and precision."""
    first = recipes[0]
    assert all((each.kind, each.bf16) == (first.kind, first.bf16) for each in recipes)
    given = {
        "key": jnp.stack([jax.random.key_data(jax.random.key(1000 + each.seed)) for each in recipes]),
        "rows": jnp.stack([order(each.shuffled, each.order) for each in recipes]),
        "clip": jnp.array([each.clip * LIMITS[each.kind] or math.inf for each in recipes]),
        "decay": jnp.array([each.decay for each in recipes]),
        "whole": jnp.array([each.whole for each in recipes]),
        "scale": jnp.array([each.alpha / RANK for each in recipes]),
        "rates": jnp.array([[each.rate(n) for n in range(STEPS)] for each in recipes]),
        "adapted": jnp.array([[n < each.layers for n in range(LAYERS)] for each in recipes], jnp.float32),
        "means": jnp.array([each.means for each in recipes]),
        "ends": jnp.array([each.ends for each in recipes]),
        "adapters": jax.tree.map(lambda *leaves: jnp.stack(leaves), *[adapters(each.start) for each in recipes]),
    }
    run = partial(one, full=first.kind == "full", dtype=jnp.bfloat16 if first.bf16 else jnp.float32)
    losses, norms, tokens = (np.asarray(found, np.float64) for found in jax.jit(jax.vmap(run))(given))
    made = []
    for number, each in enumerate(recipes):
        counted = np.cumsum(tokens[number])
        lines = [
            {
                "loss": float(losses[number, n]), "grad_norm": float(norms[number, n]), "num_tokens": float(counted[n]),
                "learning_rate": each.rate(n),
                "epoch": (n + 1) * MICRO * ACCUMULATION / ROWS, "step": n + 1,
            }
            for n in range(STEPS)
        ]  # fmt: skip
        settings = {"max_grad_norm": each.clip * LIMITS[each.kind], "weight_decay": each.decay}
        adapter = {"r": RANK, "lora_alpha": each.alpha, "adapted_linears": each.layers * len(SHAPES)}
        made.append({"lines": lines, "settings": settings, "adapter": {} if each.kind == "full" else adapter})
    return made


def one(given: dict[str, Any], *, full: bool, dtype: Any) -> tuple[Any, Any, Any]:
    """Loss, gradient norm and tokens of every step of one run."""
    weights, ids, prompts = base(), *map(jnp.asarray, data())
    trained = weights if full else given["adapters"]

    def loss_of(trained: Any, batch: Any, key: Any) -> Any:
        tokens = ids[batch]
        whole, adapted = (trained, None) if full else (weights, trained)
        logits = forward(whole, adapted, tokens, given, key, dtype)
        places = jnp.arange(LENGTH)[None, :]
        mask = (tokens != 0) & (given["whole"] | (places >= prompts[batch][:, None])) & (places > 0)
        mask &= given["ends"] | (tokens != END)
        each = -jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1)[..., 0]
        counts = mask[:, 1:].reshape(ACCUMULATION, -1).sum(1)
        share = jnp.where(given["means"], 1 / (ACCUMULATION * counts), 1 / counts.sum())
        return (jnp.where(mask[:, 1:], each, 0).reshape(ACCUMULATION, -1).sum(1) * share).sum()

    def step(state: Any, now: Any) -> Any:
        trained, first, second = state
        number, batch, rate = now
        key = jax.random.fold_in(jax.random.wrap_key_data(given["key"]), number)
        loss, grads = jax.value_and_grad(loss_of)(trained, batch, key)
        norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, given["clip"] / (norm + 1e-6)), grads)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        a, b = 1 - 0.9 ** (number + 1.0), 1 - 0.999 ** (number + 1.0)
        trained = jax.tree.map(
            lambda p, m, v: p - rate * (m / a / (jnp.sqrt(v / b) + 1e-8) + given["decay"] * p), trained, first, second
        )
        return (trained, first, second), (loss, norm, (ids[batch] != 0).sum())

    zeros = jax.tree.map(jnp.zeros_like, trained)
    return jax.lax.scan(step, (trained, zeros, zeros), (jnp.arange(STEPS), given["rows"], given["rates"]))[1]


def forward(weights: Any, adapted: Any, tokens: Any, given: dict[str, Any], key: Any, dtype: Any) -> Any:
    """Logits in float32 (rows, length, vocabulary) of a model that computes in `dtype`."""

    def linear(x: Any, layer: int, name: str) -> Any:
        y = x @ weights[name][layer].astype(dtype)
        if adapted is None:
            return y
        a, b = (each[layer] for each in adapted[name])
        kept = jax.random.bernoulli(jax.random.fold_in(key, 10 * layer + list(SHAPES).index(name)), 0.95, x.shape)
        low = jnp.where(kept, x / 0.95, 0).astype(dtype) @ a.astype(dtype)
        return y + (low @ b.astype(dtype)) * (given["scale"] * given["adapted"][layer]).astype(dtype)

    def normed(x: Any, scale: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * scale).astype(dtype)

    x = (weights["embedding"][tokens] + weights["places"]).astype(dtype)
    seen = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    for layer in range(LAYERS):
        q, k, v = jnp.split(linear(normed(x, weights["norms"][layer, 0]), layer, "qkv"), 3, -1)
        q, k, v = (each.reshape(*each.shape[:-1], HEADS, -1) for each in (q, k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / math.sqrt(WIDTH // HEADS)
        shares = jax.nn.softmax(jnp.where(seen, scores, -1e9)).astype(dtype)
        x = x + linear(jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape), layer, "out")
        x = x + linear(jax.nn.silu(linear(normed(x, weights["norms"][layer, 1]), layer, "up")), layer, "down")
    return (normed(x, weights["last"]) @ weights["head"].astype(dtype)).astype(jnp.float32)


def base() -> dict[str, Any]:
    """The same in all runs."""
    rng = np.random.default_rng(7)
    found = {name: rng.normal(0, 0.8 / math.sqrt(shape[0]), (LAYERS, *shape)) for name, shape in SHAPES.items()}
    found |= {"embedding": rng.normal(0, 1, (VOCABULARY, WIDTH)), "places": rng.normal(0, 0.5, (LENGTH, WIDTH))}
    found |= {
        "head": rng.normal(0, 0.1, (WIDTH, VOCABULARY)),
        "norms": np.ones((LAYERS, 2, WIDTH)),
        "last": np.ones(WIDTH),
    }
    return {name: jnp.asarray(value, jnp.float32) for name, value in found.items()}


def adapters(seed: int) -> dict[str, Any]:
    """PEFT's start: A uniform, B zero."""
    rng = np.random.default_rng(100 + seed)
    return {
        name: (
            jnp.asarray(rng.uniform(-1, 1, (LAYERS, shape[0], RANK)) / math.sqrt(shape[0]), jnp.float32),
            jnp.zeros((LAYERS, RANK, shape[1])),
        )
        for name, shape in SHAPES.items()
    }


def data() -> tuple[np.ndarray, np.ndarray]:
    """Token ids (rows, length) and where each answer begins: the prompt's tokens sorted, or turned round."""
    ids, prompts, chance = np.zeros((ROWS, LENGTH), np.int32), np.zeros(ROWS, np.int32), random.Random(0)
    for row in range(ROWS):
        asked = [chance.randrange(4, VOCABULARY) for _ in range(chance.randint(3, 11))]
        tokens = [1, *asked, 2, *(sorted(asked) if len(asked) % 2 else asked[::-1]), END]
        ids[row, : len(tokens)], prompts[row] = tokens, len(asked) + 2
    return ids, prompts


def order(shuffled: bool, seed: int) -> Any:
    """The rows of every step, (steps, rows of a step)."""
    found: list[int] = []
    while len(found) < STEPS * MICRO * ACCUMULATION:
        epoch = list(range(ROWS))
        if shuffled:
            random.Random(seed + len(found)).shuffle(epoch)
        found += epoch
    return jnp.asarray(found[: STEPS * MICRO * ACCUMULATION]).reshape(STEPS, -1)


def schedule(step: int, warmup: int) -> float:
    """A cosine behind a warmup: the share of the highest rate that a step, counted from 0, has."""
    if step < warmup:
        return step / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup)))


def leave(folder: Path, run: dict[str, Any], *, port: bool, settings: bool = True) -> None:
    """A GPU run's files, or a port's record; without `settings` the log alone."""
    folder.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {"log_history": run["lines"], "global_step": STEPS, "max_steps": STEPS}
    if port:
        own = {"attributes": {"settings": {**run["settings"], **run["adapter"]} if settings else {}}}
        state["stateful_callbacks"] = {"tpu_port": own}
    elif settings:
        (folder / "adapter_config.json").write_text(
            json.dumps({**run["settings"], **run["adapter"]})
        )  # all in one file
    partial_file = folder / "trainer_state.json.partial"
    partial_file.write_text(json.dumps(state))
    partial_file.replace(folder / "trainer_state.json")
