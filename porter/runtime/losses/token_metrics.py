"""What TRL's trainers log of each token beside its loss: entropy, whether it is the likeliest, the mean logit.

All are float32 (B, T) without a gradient, and cost no pass over the vocabulary: XLA computes them in those that the
log-likelihood makes anyway, its maximum and its sum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

IGNORED = -100


class TokenMetrics(NamedTuple):
    """Of the token that each place predicts; `likeliest` is 1 where no logit is above its own, and there is one."""

    entropy: Array
    likeliest: Array
    mean_logit: Array


def token_metrics(logits: Array, targets: Array) -> TokenMetrics:
    """Of logits (B, T, vocabulary) and the tokens that they predict, (B, T), -100 for none."""
    logits = lax.stop_gradient(logits.astype(jnp.float32))
    highest = jnp.max(logits, axis=-1, keepdims=True)
    weights = jnp.exp(logits - highest)
    expected = jnp.sum(weights * logits, axis=-1) / jnp.sum(weights, axis=-1)
    entropy = jax.nn.logsumexp(logits, axis=-1) - expected
    places = lax.broadcasted_iota(targets.dtype, logits.shape, logits.ndim - 1)
    own = jnp.sum(jnp.where(places == targets[..., None], logits, 0), axis=-1)
    likeliest = (targets != IGNORED) & (own >= highest[..., 0])
    return TokenMetrics(entropy, likeliest.astype(jnp.float32), jnp.mean(logits, axis=-1))
