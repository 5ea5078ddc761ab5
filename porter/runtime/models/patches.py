"""What google-tunix 0.1.7 computes wrong, put right: one function for each problem, and nothing else.

Each names the problem and the last version known to have it, and has a test that fails once upstream is right. The
corrections read the model's own config, so models with different settings live in one process. (Gemma 1's norms,
which Tunix's loader puts in the wrong place, need no patch: rules/models/gemma.toml has them where they belong.)
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

# The module whose attention is being traced, for its rotary embedding.
_attention: contextvars.ContextVar[Any] = contextvars.ContextVar("attention", default=None)


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3.1's stretched rotary embedding (transformers' rope_type "llama3"); the lengths are in tokens."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class LinearScaling:
    """Positions divided by `factor` (transformers' rope_type "linear"), as in DeepSeek-Coder."""

    factor: float


def rope_scaling(rotary: Mapping[str, Any]) -> Llama3Scaling | LinearScaling | None:
    """The scaling in a config's rotary settings (`facts.family.rope`); None for plain rotary embedding."""
    if rotary["rope_type"] == "linear":
        return LinearScaling(rotary["factor"])
    if rotary["rope_type"] != "llama3":
        return None
    return Llama3Scaling(
        rotary["factor"],
        rotary["low_freq_factor"],
        rotary["high_freq_factor"],
        rotary["original_max_position_embeddings"],
    )


@functools.cache
def config_class(upstream: type) -> type:
    """Tunix's ModelConfig, for llama3 with the fields it lacks: `rope_scaling`, and Mistral's `sliding_window`."""
    if upstream.__module__ != "tunix.models.llama3.model":
        return upstream
    fields = [("rope_scaling", Llama3Scaling | LinearScaling | None, None), ("sliding_window", int | None, None)]
    return make_dataclass("ModelConfig", fields, bases=(upstream,), frozen=True)


def apply(module: Any) -> None:
    """Apply the corrections that this implementation (a module tunix.models.<family>.model) needs, once."""
    if module.__name__ in ("tunix.models.llama3.model", "tunix.models.qwen3.model"):
        rotary_embedding(module)
    if module.__name__ == "tunix.models.llama3.model":
        sliding_window(module)


def sliding_window(module: Any) -> None:
    """llama3's attention in the window of a config that has one: Mistral's. Not a mistake of Tunix, so without end.

    The window counts places in the row, as transformers does (masking_utils.sliding_window_overlay), which within one
    document are positions. It narrows the mask that `block` gets, so that `see_nothing` knows of it. A query that may
    see what follows it is padding that gets its whole row (`losses.blind_padding`), in torch beyond the window, too.
    """
    upstream = module.Attention.__call__
    if getattr(upstream, "windowed", False):
        return

    @functools.wraps(upstream)
    def call(self: Any, x: Any, segment_pos: Any, cache: Any, attn_mask: Any) -> Any:
        window = getattr(self.config, "sliding_window", None)
        if window is not None and attn_mask is not None and attn_mask.shape[-1] > window:
            start = 0 if cache is None else cache["end_index"][0]
            before = _places_before(start, x.shape[1], attn_mask.shape[-1])
            sees_row = (attn_mask & (before < 0)).any(axis=-1, keepdims=True)
            attn_mask = attn_mask & ((before < window) | sees_row)
        return upstream(self, x, segment_pos, cache, attn_mask)

    call.windowed = True  # type: ignore[attr-defined]
    module.Attention.__call__ = call


def _places_before(start: Any, queries: int, keys: int) -> Any:
    """(queries, keys) int: how many places a key stands before a query, the first one at `start`."""
    import jax.numpy as jnp

    return start + jnp.arange(queries)[:, None] - jnp.arange(keys)


def rotary_embedding(module: Any) -> None:
    """llama3 and qwen3 ignore config.rope_theta (1e6 is hard-coded), and llama3 has no scaling. google-tunix <= 0.1.7.

    Llama 3.x and Qwen3-2507 get logits that are off by up to 1.0 at 100 tokens. Attention.block calls the module's
    `apply_rope` without its config, so the block is told apart by a context variable while it is traced.
    """
    if getattr(module.apply_rope, "corrected", False) or not rotary_embedding_is_wrong(module):
        return
    upstream_rope, upstream_block = module.apply_rope, module.Attention.block

    @functools.wraps(upstream_block)
    def block(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _attention.set(self)
        try:
            return upstream_block(self, *args, **kwargs)
        finally:
            _attention.reset(token)

    @functools.wraps(upstream_rope)
    def apply_rope(inputs: Any, positions: Any, *args: Any, **kwargs: Any) -> Any:
        attention = _attention.get()
        if attention is None:
            return upstream_rope(inputs, positions, *args, **kwargs)
        config = attention.config
        return _rotate(inputs, positions, config.rope_theta, getattr(config, "rope_scaling", None))

    apply_rope.corrected = True  # type: ignore[attr-defined]
    module.apply_rope, module.Attention.block = apply_rope, block


def see_nothing() -> None:
    """A query whose keys are all masked gets zeros from its attention, in every family of Tunix that is loaded.

    torch's scaled_dot_product_attention (from 2.5 on) and flash attention give zeros; Tunix takes the mean of all
    values. It only shows where something is predicted from padding on the left. Not a mistake of Tunix, so without end.
    """
    for name, module in list(sys.modules.items()):
        if re.fullmatch(r"tunix\.models\.\w+\.model", name) and hasattr(module, "Attention"):
            _zeros_without_keys(module.Attention)


def _zeros_without_keys(attention: Any) -> None:
    if getattr(attention.block, "sees_nothing", False):
        return
    upstream, signature = attention.block, inspect.signature(attention.block)

    @functools.wraps(upstream)
    def block(*args: Any, **kwargs: Any) -> Any:
        cache, outputs, *rest = upstream(*args, **kwargs)
        mask = signature.bind(*args, **kwargs).arguments.get("attn_mask")
        if mask is not None:
            outputs = outputs * mask.any(-1)[..., None].astype(outputs.dtype)
        return (cache, outputs, *rest)

    block.sees_nothing = True  # type: ignore[attr-defined]
    attention.block = block


def padding_learns_nothing(model: Any, pad_token_id: int | None) -> None:
    """Embeddings get no gradient where they are read for config.pad_token_id: torch's nn.Embedding(padding_idx=…).

    transformers builds every text model so. It shows in full fine-tuning, where padding is trained or the same token
    ends the texts; a tied head's part of the gradient stays. Not a mistake of Tunix, so without end.
    """
    if pad_token_id is not None:
        _stop_at_padding(type(model.embedder))
        model.embedder.padding_idx = pad_token_id


def _stop_at_padding(embedder: Any) -> None:
    """Embedder.encode, and gemma4's encode_per_layer_input, without a gradient at tokens that are `padding_idx`."""
    if getattr(embedder.encode, "stops_at_padding", False):
        return
    upstream = embedder.encode

    @functools.wraps(upstream)
    def encode(self: Any, tokens: Any) -> Any:
        embedded = upstream(self, tokens)
        return _stopped(embedded, tokens == self.padding_idx) if hasattr(self, "padding_idx") else embedded

    encode.stops_at_padding = True  # type: ignore[attr-defined]
    embedder.encode = encode
    if not hasattr(embedder, "encode_per_layer_input"):
        return
    upstream_per_layer = embedder.encode_per_layer_input

    @functools.wraps(upstream_per_layer)
    def encode_per_layer_input(self: Any, embedded: Any, tokens: Any) -> Any:
        known = _SecondTable(self) if hasattr(self, "padding_idx") else self
        return upstream_per_layer(known, embedded, tokens)

    embedder.encode_per_layer_input = encode_per_layer_input


class _SecondTable:
    """gemma4's Embedder whose `per_layer_input_embedding.value[tokens]` has no gradient at padding."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.per_layer_input_embedding = self.value = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def __getitem__(self, tokens: Any) -> Any:
        read = self._embedder.per_layer_input_embedding.value[tokens]
        return _stopped(read, (tokens == self._embedder.padding_idx)[..., None])


def _stopped(values: Any, where: Any) -> Any:
    """The same values, (..., D), without a gradient where `where`, (...), holds."""
    import jax
    import jax.numpy as jnp

    return jnp.where(where[..., None], jax.lax.stop_gradient(values), values)


def rotary_embedding_is_wrong(module: Any) -> bool:
    """Whether this Tunix's attention leaves config.rope_theta out, which holds whatever its version says."""
    return "rope_theta" not in inspect.getsource(module.Attention)


def _rotate(inputs: Any, positions: Any, theta: float, scaling: Llama3Scaling | LinearScaling | None) -> Any:
    """Rotary embedding of (B, T, heads, head_dim) at positions (B, T): halves rotated, angles in float32."""
    import jax.numpy as jnp

    half = inputs.shape[-1] // 2
    frequencies = 1.0 / theta ** (jnp.arange(half, dtype=jnp.float32) / half)
    if isinstance(scaling, LinearScaling):
        frequencies = frequencies / scaling.factor
    elif scaling is not None:
        frequencies = _scaled(frequencies, scaling)
    angles = positions[..., None, None].astype(jnp.float32) * frequencies
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    first, second = inputs[..., :half], inputs[..., half:]
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return rotated.astype(inputs.dtype)


def _scaled(frequencies: Any, scaling: Llama3Scaling) -> Any:
    """Llama 3.1: low frequencies divided by the factor, high ones kept, those between blended (linear in 1/wavelength).

    As transformers' modeling_rope_utils._compute_llama3_parameters.
    """
    import jax.numpy as jnp

    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    kept = jnp.clip(kept, 0.0, 1.0)
    return frequencies * (kept + (1 - kept) / scaling.factor)
