"""Attention of long rows, a block of queries at a time: sums over the keys that a query may see, and no others.

Tunix's attention makes the scores of every query with every key of the row and masks most of them. A causal row needs
half of them, a sliding window fewer still; XLA does not see that in a mask.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from .rematerialize import module_of

# The two products of Tunix's attention: queries with keys, and what the softmax makes of that with values. Gemma has
# scores (B, T, heads, S), the others (B, heads, T, S); grouped heads have an axis for the group behind them.
SCORES = {"BTKGH,BSKH->BTKGS", "BTNH,BSNH->BTNS", "BTHGD,BSHD->BHGTS"}
VALUES = {"BTKGS,BSKH->BTKGH", "BTNS,BSNH->BTNH", "BHGTS,BSHD->BTHGD"}


def attend_in_blocks(model: nnx.Module, tokens: int = 512) -> nnx.Module:
    """Let the model's attention take `tokens` queries at a time, each block with the keys up to its end. Returns it.

    The scores of a causal row of T tokens, (T, T) for each head, are made and kept only where a query can see a key:
    (T + tokens) / 2T of them, in layers with a sliding window those of the window. The values are the same up to the
    order of float sums. Rows of at most `tokens`, and generation with a cache, are as before. It asks for a causal
    mask, as `rt.model_inputs` makes it.
    """
    if tokens < 1:
        raise ValueError(f"attend_in_blocks(tokens={tokens}): a block has at least one query")
    module = importlib.import_module(module_of(type(model)))
    _take_blocks(module)
    for _, part in model.iter_modules():
        if isinstance(part, module.Attention):
            part.query_block = tokens
    return model


@dataclass
class _Attended:
    """One call of Attention.block, while it is traced: what its two products are computed from."""

    attention: Any
    mask: jax.Array
    scores: tuple[str, jax.Array, jax.Array] | None = None

    def values(self, equation: str, value: jax.Array) -> jax.Array:
        """The second product, (B, T, ...): the blocks' one after the other."""
        if self.scores is None:
            raise RuntimeError("attend_in_blocks: this release of Tunix computes its attention otherwise")
        first, query, key = self.scores
        size, length = self.attention.query_block, query.shape[1]
        window = _window(self.attention)
        found = []
        for start in range(0, length, size):
            end = min(start + size, length)
            seen = slice(0 if window is None else max(0, start - window + 1), end)
            scores = jnp.einsum(first, query[:, start:end], key[:, seen])
            probabilities = self._softmax(first, scores, start, end, seen, window).astype(key.dtype)
            found.append(jnp.einsum(equation, probabilities, value[:, seen]))
        return jnp.concatenate(found, axis=1)

    def _softmax(
        self, equation: str, scores: jax.Array, start: int, end: int, seen: slice, window: int | None
    ) -> jax.Array:
        mask = self.mask[:, start:end, seen]
        if window is not None:
            distance = jnp.arange(start, end)[:, None] - jnp.arange(seen.start, end)[None, :]
            mask = mask & (distance < window)
        # The mask has no axes for heads; they stand before T or behind it.
        heads_first = equation.endswith("TS")
        mask = mask[:, None, None] if heads_first else jnp.expand_dims(mask, tuple(range(2, scores.ndim - 1)))
        if heads_first:
            scores = scores * self.attention.scale
        cap = getattr(self.attention, "attn_logits_soft_cap", None)
        if cap is not None:
            scores = jnp.tanh(scores / cap) * cap
        return jax.nn.softmax(jnp.where(mask, scores, K_MASK).astype(jnp.float32), axis=-1)


K_MASK = -2.3819763e38  # what Tunix's implementations put where a key is masked
_tracing: contextvars.ContextVar[_Attended | None] = contextvars.ContextVar("attended", default=None)


def _window(attention: Any) -> int | None:
    """Tokens of this layer's sliding window, the query's own among them; None where it sees the whole row."""
    if getattr(getattr(attention, "attn_type", None), "name", "") != "LOCAL_SLIDING":
        return getattr(getattr(attention, "config", None), "sliding_window", None)  # Mistral's, in every layer
    own = getattr(attention, "sliding_window_size", None)
    return own if own is not None else attention.config.sliding_window_size


class _Products:
    """jax.numpy for a Tunix module: as it is, but for the two products of an attention in blocks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    def einsum(self, equation: str, *operands: Any, **named: Any) -> Any:
        attended = _tracing.get()
        if attended is not None and equation in VALUES:
            return attended.values(equation, operands[1])
        if attended is not None and equation in SCORES:
            attended.scores = (equation, operands[0], operands[1])
        # Scores of whole rows, which nothing reads where `values` made the blocks' own: XLA leaves them out.
        return jnp.einsum(equation, *operands, **named)


def _take_blocks(module: Any) -> None:
    """Attention.block of a Tunix implementation heeds `query_block`, where an attention has it."""
    if isinstance(module.jnp, _Products):
        return
    upstream, signature = module.Attention.block, inspect.signature(module.Attention.block)

    @functools.wraps(upstream)
    def block(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        size, mask = getattr(self, "query_block", None), given.get("attn_mask")
        whole = size is None or mask is None or given.get("cache") is not None or mask.shape[-2] <= size
        token = _tracing.set(None if whole else _Attended(self, mask))
        try:
            return upstream(self, *args, **kwargs)
        finally:
            _tracing.reset(token)

    module.jnp, module.Attention.block = _Products(), block
