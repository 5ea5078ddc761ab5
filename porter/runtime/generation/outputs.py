"""`causal_lm_output`: what `model(**inputs, labels=ids)` of transformers gives, of a model that a script trains.

    inputs = tokenizer(text, return_tensors="pt")
    outputs = rt.causal_lm_output(model, **inputs, labels=inputs["input_ids"])
    outputs.loss.item(), outputs.logits[0, -1]

The pass runs on the mesh; what it gives are torch's tensors on the host, as the code behind the call takes them.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ..facts.files import to_host
from ..facts.generation_settings import OF_FORWARD
from ..facts.lengths import rounded
from ..hosts import processes as hosts
from ..hosts.global_arrays import on_mesh
from ..losses.token_loss import IGNORED, forward, model_inputs
from .completions import mesh_of


def causal_lm_output(
    model: Any, input_ids: Any = None, attention_mask: Any = None, *, labels: Any = None, **others: Any
) -> Any:
    """transformers' CausalLMOutput: `logits` (B, T, vocabulary) float32 and, where there are `labels`, their `loss`.

    `input_ids`, `attention_mask`, `labels`: (B, T), torch's, NumPy's or JAX's; a label of -100 is not counted, and the
    token at t predicts the label at t + 1. The loss is the mean over all labels that count. Adapters count, their
    dropout is off, as it is behind `model.eval()`. A model of torch's, which a function of the script may be given as
    well, is called as it is.

    ValueError by name for a keyword without a counterpart (past_key_values, output_hidden_states=True, ...).
    """
    import torch
    from transformers.modeling_outputs import CausalLMOutput

    if isinstance(model, torch.nn.Module):
        return model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, **others)
    for name, value in others.items():
        if name not in OF_FORWARD or (name.startswith("output_") and value) or (name == "return_dict" and not value):
            raise ValueError(f"{name}={value!r}: Tunix's model gives logits and a loss alone")
    model = getattr(model, "unmerged", model)  # merge_and_unload's: its adapters give the same logits
    ids = _rows(input_ids, "input_ids")
    real = np.ones(ids.shape, bool) if attention_mask is None else _rows(attention_mask, "attention_mask").astype(bool)
    targets = None if labels is None else torch.from_numpy(_rows(labels, "labels"))
    hosts.agree("the tokens of rt.causal_lm_output", ids, real)
    if targets is not None and bool((~real[:, :-1] & real[:, 1:] & (targets[:, 1:].numpy() != IGNORED)).any()):
        warnings.warn(
            "rows are padded on the left, and their first token has a label: padding predicts it, which sees other "
            "tokens here than in torch (label it -100)",
            stacklevel=2,
        )
    logits = torch.from_numpy(_logits(model, ids, real))
    loss = None
    if targets is not None:
        found, wanted = logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(found, wanted, ignore_index=IGNORED)
    return CausalLMOutput(loss=loss, logits=logits)


def _rows(given: Any, name: str) -> np.ndarray:
    """(B, T) int64, whatever holds them."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    found = np.asarray(given)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"{name} are rows of tokens, (B, T); these are {found.shape}")
    return found.astype(np.int64)


# What is compiled for a model, by its structure and whether rows are padded; nothing here holds the model's weights.
_RUNS: WeakKeyDictionary[nnx.Module, dict[Any, Any]] = WeakKeyDictionary()


def _logits(model: nnx.Module, ids: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Logits (B, T, vocabulary) float32 of tokens (B, T), of which those see `real` (B, T) that are not behind them."""
    mesh = mesh_of(model)
    unit = int(dict(mesh.shape).get("fsdp", 1))
    count, length = ids.shape
    shape = -(-count // unit) * unit, rounded(length)  # a loop over texts compiles a few times, not always
    tokens, seen = np.zeros(shape, np.int32), np.ones(shape, bool)
    tokens[:count, :length], seen[:count, :length] = ids, real
    state = nnx.state(model)
    runs = _RUNS.setdefault(model, {})
    key = bool(seen.all()), jax.tree.structure(state)
    if key not in runs:
        graph, padded = nnx.graphdef(model), not key[0]
        runs[key] = jax.jit(lambda state, ids, real: _forward(nnx.merge(graph, state), ids, real if padded else None))
    with mesh:
        found = to_host(runs[key](state, on_mesh(tokens, mesh), on_mesh(seen, mesh)))
    return np.array(found[:count, :length], np.float32)


def _forward(model: nnx.Module, ids: jax.Array, real: jax.Array | None) -> jax.Array:
    """Positions go on over padding, as transformers counts them where a call gives none."""
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1], dtype=jnp.int32), ids.shape)
    batch = {"input_tokens": ids, "positions": positions, "segment_ids": jnp.zeros_like(ids)}
    given = model_inputs(batch if real is None else {**batch, "attended": real})
    names = ("input_tokens", "positions", "attention_mask", "segment_ids")
    return forward(model, *(given[name] for name in names)).astype(jnp.float32)
