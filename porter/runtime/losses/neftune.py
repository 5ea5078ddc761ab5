"""NEFTune: uniform noise on the embeddings while training, as transformers' Trainer adds it (arXiv 2310.05914)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax


@contextmanager
def noisy_embeddings(model: Any, noise: jax.Array | None, seeds: jax.Array | None) -> Iterator[None]:
    """Within it, what the embedder of `model` reads of row i gets noise of ± `noise[i]` / sqrt(embed).

    `noise` (B,) float32: neftune_noise_alpha / sqrt(L) with the L that the GPU run padded the row's micro-batch to.
    `seeds` (B,) uint32: of each row's draws. None for both: no noise. transformers 5.12 adds it behind the embedding's
    scale, where the model has one (integrations/neftune.py), and so does this.
    """
    if noise is None or seeds is None:
        yield
        return
    kind, embedder = type(model.embedder), model.embedder
    original = kind.encode

    def encode(self: Any, x: Any) -> Any:
        embedded = original(self, x)
        if self is not embedder:
            return embedded

        def drawn(seed: jax.Array, bound: jax.Array) -> jax.Array:
            return bound * jax.random.uniform(jax.random.key(seed), embedded.shape[1:], minval=-1.0, maxval=1.0)

        bounds = noise / math.sqrt(embedded.shape[-1])
        return embedded + jax.vmap(drawn)(seeds, bounds).astype(embedded.dtype)

    kind.encode = encode
    try:
        yield
    finally:
        kind.encode = original
