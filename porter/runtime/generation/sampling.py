"""Sampling completions from a Tunix model as `generate` of transformers does: the tokens of a rollout.

google-tunix 0.1.7's own sampler gives completions without their end token, which then isn't trained, takes every token
equal to the pad token for padding (for Llama that is the end of each turn), and draws the same random numbers in every
call (tunix/generate/sampler.py). The model and its cache are Tunix's; prompts are token ids with a mask.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ..facts.files import to_host
from ..hosts.global_arrays import on_mesh
from ..models.head import without_head


@dataclass(frozen=True)
class Sampling:
    """How completions are sampled; the names are GenerationConfig's, and so is the order in which they are applied.

    `max_tokens`: tokens of a completion, its end token included. `ends`: the tokens that end one. `pad`: fills up.
    `greedy`: the likeliest token each time; what shapes the random choice has no effect then.
    """

    max_tokens: int
    ends: tuple[int, ...]
    pad: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    greedy: bool = False

    def __post_init__(self) -> None:
        if self.temperature <= 0 and not self.greedy:
            raise ValueError(f"temperature={self.temperature}: sampling needs a temperature above 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} is not in (0, 1]")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p={self.min_p} is not in [0, 1]")
        if self.max_tokens < 1:
            raise ValueError(f"max_completion_length={self.max_tokens}: a completion has at least one token")


class Sampler:
    """Samples from `model` as it is at the time of the call.

    Compiled once for each number of prompts, in all samplers of the same shapes and settings.
    """

    def __init__(self, model: nnx.Module, mesh: jax.sharding.Mesh, sampling: Sampling, prompt_length: int) -> None:
        self.sampling = sampling
        self.prompt_length = prompt_length
        self._model = model
        self._mesh = mesh
        self._run = _compiled(model, sampling)

    def __call__(
        self,
        prompts: Sequence[Sequence[int]],
        key: jax.Array,
        *,
        limit: int | None = None,
        least: int = 0,
        width: int | None = None,
    ) -> list[list[int]]:
        """A completion for each prompt, both token ids: up to and with the end token, or `limit` without one.

        `limit`: tokens of this call's completions, `max_tokens` unless it is less. `least`: tokens before one may end.
        `width`: how many places the padded prompts have as transformers sees them, which counts for the penalty and
        the n-grams of the padding token; all of `prompt_length` by default.
        """
        rows = -(-len(prompts) // self._unit) * self._unit
        ids = np.full((rows, self.prompt_length), self.sampling.pad, np.int32)
        real = np.zeros((rows, self.prompt_length), bool)
        for place, prompt in enumerate(prompts):
            ids[place, self.prompt_length - len(prompt) :] = prompt
            real[place, self.prompt_length - len(prompt) :] = True
        real[len(prompts) :, -1] = True  # rows that fill up the mesh
        limit = self.sampling.max_tokens if limit is None else limit
        first = self.prompt_length - (self.prompt_length if width is None else width)
        asked = np.asarray([len(prompts), limit, least, first], np.int32)
        with self._mesh:
            state = nnx.state(self._model)
            tokens = self._run(state, on_mesh(ids, self._mesh), on_mesh(real, self._mesh), asked, key)
        return [self._cut(row) for row in to_host(tokens)[: len(prompts), :limit]]

    @property
    def _unit(self) -> int:
        return int(dict(self._mesh.shape).get("fsdp", 1))

    def _cut(self, tokens: np.ndarray) -> list[int]:
        ends = np.flatnonzero(np.isin(tokens, self.sampling.ends))
        return [int(token) for token in (tokens[: ends[0] + 1] if len(ends) else tokens)]


# What is compiled for a model, by its settings and its structure; nothing here holds the model's weights.
_RUNS: WeakKeyDictionary[nnx.Module, dict[Any, Any]] = WeakKeyDictionary()


def _compiled(model: nnx.Module, sampling: Sampling) -> Any:
    """`_sample` for a model and settings, one jitted function for all samplers of both."""
    runs = _RUNS.setdefault(model, {})
    key = sampling, jax.tree.structure(nnx.state(model))
    if key not in runs:
        runs[key] = jax.jit(partial(_sample, nnx.graphdef(_without_remat(model)), sampling))
    return runs[key]


def _sample(
    graph: Any, settings: Sampling, state: Any, ids: jax.Array, real: jax.Array, asked: jax.Array, key: jax.Array
) -> jax.Array:
    """Tokens after the prompts `ids` (B, P), (B, max_tokens); what follows an end token means nothing.

    `real`: (B, P) bool, where a prompt has tokens. `asked`: how many rows are prompts, how many tokens at most and at
    least, and the first place that counts for the repetition penalty and for n-grams.
    """
    length = ids.shape[1]
    count, limit, least, first = asked
    model = nnx.merge(graph, state)
    cache = empty_cache(model, ids.shape[0], length + settings.max_tokens)
    positions = jnp.maximum(jnp.cumsum(real, axis=1) - 1, 0)
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    mask = jnp.pad(causal & real[:, None, :], ((0, 0), (0, 0), (0, settings.max_tokens)))
    hidden, cache, head = without_head(model, ids, positions, cache, mask, **_segments(model, real))
    seen = jnp.pad(real, ((0, 0), (0, settings.max_tokens)))
    tokens = jnp.pad(ids, ((0, 0), (0, settings.max_tokens)), constant_values=settings.pad)
    ends = jnp.asarray(settings.ends, jnp.int32)
    at = jnp.arange(length + settings.max_tokens)

    def put(tokens: jax.Array, logits: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
        past = (at >= first) & (at < length + step)
        if settings.repetition_penalty != 1.0:
            logits = penalise(logits, tokens, past, settings.repetition_penalty)
        if settings.no_repeat_ngram_size:
            logits = ban_repeats(logits, tokens, past, settings.no_repeat_ngram_size)
        logits = jnp.where(step < least, logits.at[:, ends].set(-jnp.inf), logits)
        if settings.greedy:
            token = jnp.argmax(logits, axis=-1).astype(tokens.dtype)
        else:
            token = jax.random.categorical(jax.random.fold_in(key, step), warp(logits, settings))
        return tokens.at[:, length + step].set(token), jnp.isin(token, ends)

    def more(carry: tuple[Any, ...]) -> jax.Array:
        step, _, _, _, done = carry
        return (step < limit) & ~jnp.all(done)

    def decode(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        step, tokens, seen, cache, done = carry
        last = jax.lax.dynamic_slice_in_dim(tokens, length + step - 1, 1, axis=1)
        seen = jax.lax.dynamic_update_slice_in_dim(seen, jnp.ones_like(last, bool), length + step - 1, axis=1)
        place = positions[:, -1:] + step
        # Variables of this trace: the counter of an adapter's dropout, which does nothing here, is one.
        local = jax.tree.map(lambda array: array, state)
        logits, cache = nnx.merge(graph, local)(last, place, cache, seen[:, None, :])
        tokens, ended = put(tokens, logits[:, -1], step)
        return step + 1, tokens, seen, cache, done | ended

    tokens, ended = put(tokens, head(hidden[:, -1:])[:, -1], jnp.int32(0))
    done = ended | (jnp.arange(len(ids)) >= count)  # nobody waits for rows that fill up the mesh
    _, tokens, *_ = jax.lax.while_loop(more, decode, (jnp.int32(1), tokens, seen, cache, done))
    return tokens[:, length:]


def _without_remat(model: nnx.Module) -> nnx.Module:
    """The model with rematerialisation off, which is of no use here and can't be traced in a loop; same arrays."""
    plain: Any = nnx.merge(*nnx.split(model))
    old = plain.config
    kinds = type(old.remat_config) if hasattr(old, "remat_config") else None
    if kinds is not None and hasattr(kinds, "NONE"):
        new = dataclasses.replace(old, remat_config=kinds.NONE)
        for _, module in plain.iter_modules():
            if getattr(module, "config", None) is old:
                module.config = new
    return plain


def warp(logits: jax.Array, sampling: Sampling) -> jax.Array:
    """Logits (B, V) at a temperature, -inf where top_k, then top_p, then min_p leave a token out."""
    logits = logits.astype(jnp.float32) / sampling.temperature
    size = logits.shape[-1]
    if sampling.top_k and sampling.top_k < size:
        least = jax.lax.top_k(logits, sampling.top_k)[0][:, -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if sampling.top_p < 1.0:
        ordered, places = jax.lax.top_k(logits, size)
        shares = jax.nn.softmax(ordered, axis=-1)
        out = jnp.cumsum(shares, axis=-1) - shares >= sampling.top_p  # what comes before a token is enough
        rows = jnp.arange(len(logits))[:, None]
        logits = jnp.where(jnp.zeros_like(out).at[rows, places].set(out), -jnp.inf, logits)
    if sampling.min_p is not None:
        shares = jax.nn.softmax(logits, axis=-1)
        logits = jnp.where(shares < sampling.min_p * shares.max(axis=-1, keepdims=True), -jnp.inf, logits)
    return logits


def penalise(logits: jax.Array, tokens: jax.Array, past: jax.Array, penalty: float) -> jax.Array:
    """Logits (B, V) of the tokens that a row holds so far made smaller, padding included, as transformers does.

    `tokens`: (B, T); `past`: (T,) bool, the places filled so far.
    """
    rows = jnp.arange(len(logits))[:, None]
    held = jnp.zeros(logits.shape, bool).at[rows, tokens].max(jnp.broadcast_to(past, tokens.shape))
    return jnp.where(held, jnp.where(logits < 0, logits * penalty, logits / penalty), logits)


def ban_repeats(logits: jax.Array, tokens: jax.Array, past: jax.Array, size: int) -> jax.Array:
    """Logits (B, V), -inf for a token that would end an n-gram of `size` which the row holds already, padding included.

    `tokens`: (B, T); `past`: (T,) bool, the places filled so far, one behind the other.
    """
    filled = jnp.max(jnp.where(past, jnp.arange(len(past)) + 1, 0))
    # At each place whether the n-gram that begins there is whole, and begins with the row's last size - 1 tokens.
    repeats = jnp.broadcast_to(past & jnp.pad(past, (0, size - 1))[size - 1 :], tokens.shape)
    for place in range(size - 1):
        last = jax.lax.dynamic_slice_in_dim(tokens, filled - size + 1 + place, 1, axis=1)
        repeats &= jnp.roll(tokens, -place, axis=1) == last
    rows = jnp.arange(len(logits))[:, None]
    banned = jnp.zeros(logits.shape, bool).at[rows, jnp.roll(tokens, 1 - size, axis=1)].max(repeats)
    return jnp.where(banned, -jnp.inf, logits)


def empty_cache(model: Any, batch: int, length: int) -> Any:
    """The key and value cache of a Tunix model; families without `init_cache` share one shape."""
    config = model.config
    dtype = getattr(config, "dtype", None) or getattr(config, "param_dtype", None)
    dtype = dtype or jax.tree.leaves(nnx.state(model, nnx.Param))[0].dtype
    if hasattr(model, "init_cache"):
        return model.init_cache(batch, length, dtype)
    shape = (batch, length, config.num_kv_heads, config.head_dim)
    return {
        f"layer_{layer}": {
            "k": jnp.zeros(shape, dtype),
            "v": jnp.zeros(shape, dtype),
            "end_index": jnp.zeros((batch,), jnp.int32),
        }
        for layer in range(config.num_layers)
    }


def _segments(model: Any, real: jax.Array) -> dict[str, Any]:
    """Flash attention reads no mask: it parts padding by segment ids."""
    flash = getattr(model.config, "use_flash_attention", False)
    takes = "segment_ids" in inspect.signature(type(model).__call__).parameters
    return {"segment_ids": real.astype(jnp.int32)} if flash and takes else {}
