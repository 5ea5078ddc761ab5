"""Padding in front of a row, which has no token to see, and what torch's attention gives it all the same.

From the last of it a model predicts the row's first token, wherever a collator pads on the left.
"""

from __future__ import annotations

import contextvars
import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

NEVER_UNMASKED = ("gemma2", "gemma3")
GARBAGE = (
    "rows padded on the left: before transformers 4.53 torch's sdpa attention gave Gemma 2 and 3 gradients that are "
    "wrong there (norms of 1e8), so that the GPU run learned little else; this run has eager attention's"
)
_averaging: contextvars.ContextVar[tuple[jax.Array, jax.Array] | None] = contextvars.ContextVar(
    "averaging", default=None
)


@contextmanager
def seeing(
    model: Any, sees_row: jax.Array | None, averages_row: jax.Array | None, attention_mask: jax.Array
) -> Iterator[None]:
    """Within it, queries where `averages_row` (B, T) holds get the mean of the values of the keys that they may see.

    `attention_mask` (B, T, T) lets both kinds see their row, ahead too; scores of the one are all 0, as eager
    attention's are all its smallest number, also where a window ends. None for both: nothing is different. ValueError
    for a model whose attention goes in blocks, which takes every mask to be causal.

    Of Gemma 2 and 3 transformers never changed the mask that lets such queries see their row in other families: all
    their scores are the smallest number in sdpa, too, so that they take the mean, and torch's gradient of that is
    wrong by eight orders of magnitude. A warning says so.
    """
    if sees_row is not None and _family(model) in NEVER_UNMASKED:
        warnings.warn(GARBAGE, stacklevel=2)
        sees_row, averages_row = None, sees_row
    if sees_row is None and averages_row is None:
        yield
        return
    if any(getattr(part, "query_block", None) for _, part in model.iter_modules()):
        raise ValueError(
            "rows that are padded on the left are predicted from padding that sees what follows, which "
            "attend_in_blocks leaves out: train them without it, or pad on the right"
        )
    defining = next(c.__module__ for c in type(model).__mro__ if c.__module__.startswith("tunix."))
    module: Any = importlib.import_module(defining)
    original = module.jnp
    token = _averaging.set(None if averages_row is None else (averages_row, attention_mask))
    module.jnp = _Scores(original)
    try:
        yield
    finally:
        module.jnp = original
        _averaging.reset(token)


def _family(model: Any) -> str:
    return getattr(getattr(getattr(model, "porter", None), "family", None), "name", "")


class _Scores:
    """jax.numpy for a Tunix module: as it is, but for the scores of queries that take a mean.

    These are 0 where the mask is put over them. Eager attention adds its smallest number to scores, which vanish, but
    get their gradient all the same; so they do here.
    """

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def where(self, mask: Any, *values: Any) -> Any:
        found = _averaging.get()
        if found is not None and len(values) == 2 and getattr(mask, "ndim", 0) >= 4:
            scores, (queries, seen) = values[0], found
            flat = queries.reshape(*mask.shape[:-1], 1)  # (B, T) and axes of 1 for heads
            mask = jnp.where(flat, seen.reshape(mask.shape), mask)
            values = (scores - jnp.where(flat, jax.lax.stop_gradient(scores), 0), values[1])
        return self._original.where(mask, *values)
