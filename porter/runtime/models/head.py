"""A model's last hidden states and its head apart, so that the loss can go through the vocabulary a part at a time.

Tunix's models return logits only: (B, T, vocabulary) in float32, and as much again for the gradient. Here the head is
an identity while the model is called, and is applied by the loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

Head = Callable[[jax.Array], jax.Array]


def hidden_states(model: Any, *arguments: Any, **named: Any) -> tuple[jax.Array, Head]:
    """`model(*arguments, **named)` without its head: hidden states (B, T, embed), and the head, to float32 logits."""
    hidden, _, head = without_head(model, *arguments, **named)
    return hidden, head


def without_head(model: Any, *arguments: Any, **named: Any) -> tuple[jax.Array, Any, Head]:
    """Hidden states (B, T, embed), the filled cache, and the head, to float32 logits.

    The head includes the softcap, where the model has one. google-tunix 0.1.7: a tied head is `embedder.decode`, an
    untied one the module `lm_head`; Gemma 1 and 2 keep the softcap in an attribute, Gemma 4 in its config.
    """
    own = getattr(model, "lm_head", None)
    decode = (lambda x: own(x)) if own is not None else model.embedder.decode
    cap = getattr(model, "final_logits_softcap", None) or getattr(model.config, "final_logit_softcap", None)
    with _identity(model, own):
        hidden, cache = model(*arguments, **named)
    dtype = getattr(model.config, "dtype", None) or getattr(model.config, "param_dtype", None) or hidden.dtype

    def head(states: jax.Array) -> jax.Array:
        logits = decode(states).astype(jnp.float32)
        return logits if cap is None else jnp.tanh(logits / cap) * cap

    return hidden.astype(dtype), cache, head


@contextmanager
def _identity(model: Any, own: Any) -> Iterator[None]:
    """Within it, the head of `model`, and of no other, returns what it gets, and no softcap is applied."""
    target, name = (type(own), "__call__") if own is not None else (type(model.embedder), "decode")
    instance = own if own is not None else model.embedder
    original = getattr(target, name)

    def through(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return x if self is instance else original(self, x, *args, **kwargs)

    config = model.config
    attribute = "final_logits_softcap" if hasattr(model, "final_logits_softcap") else ""
    cap = getattr(model, attribute) if attribute else None
    setattr(target, name, through)
    try:
        if attribute:
            model.final_logits_softcap = None
        elif getattr(config, "final_logit_softcap", None) is not None:
            model.config = dataclasses.replace(config, final_logit_softcap=None)
        yield
    finally:
        setattr(target, name, original)
        if attribute:
            model.final_logits_softcap = cap
        model.config = config
