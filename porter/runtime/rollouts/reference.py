"""Log-probabilities of completions, by the policy and by the reference that it may not move far from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
from flax import nnx

from ..losses.policy_loss import logps_and_entropy
from ..losses.token_loss import model_inputs
from ..models.load_model import load_reference


def logps_of(
    graph: Any, trained: Any, rest: Any, tokens: dict[str, jax.Array], *, length: int, temperature: float
) -> jax.Array:
    """Those of the last `length` tokens of each row, (B, length), by a model in parts: what trains, and the rest."""
    inputs = model_inputs(tokens)
    model = nnx.merge(graph, trained, rest)
    return logps_and_entropy(model, **inputs, length=length, temperature=temperature)[0]


@dataclass(frozen=True)
class Reference:
    """Scores tokens, given what of the model doesn't train; `weights`: what it keeps of its own."""

    weights: Any
    score: Callable[..., jax.Array]

    def __call__(self, rest: Any, tokens: dict[str, jax.Array]) -> jax.Array:
        return self.score(rest, tokens)


def reference_logps(
    reference: str,
    model: nnx.Module,
    mesh: jax.sharding.Mesh,
    trains: type[nnx.Variable],
    policy: Callable[..., jax.Array],
    settings: Mapping[str, Any],
) -> Reference:
    """How the reference scores tokens, given what of the model doesn't train: by a copy of what does ("start"), by
    adapters of zeros, which leave the base as it is ("base"), or by the checkpoint alone, which is a model's base where
    it has adapters.

    `policy`: `logps_of` of the model itself, with `settings`.
    """
    if reference not in ("start", "base", "checkpoint"):
        raise ValueError(f"reference={reference!r} is not known; choose start, base or checkpoint")
    if reference == "checkpoint" and (loaded := load_reference(model, mesh)) is not None:
        graph, *weights = nnx.split(loaded, trains, ...)
        own = jax.jit(partial(logps_of, graph, **settings))
        return Reference(weights, lambda rest, tokens: own(*weights, tokens))
    off = reference != "start" and trains is nnx.LoRAParam
    kept = jax.tree.map(lambda array: array * 0 if off else array, nnx.state(model, trains))
    return Reference(kept, partial(policy, kept))
