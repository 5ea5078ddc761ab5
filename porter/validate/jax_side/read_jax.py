"""Reads what a trace needs out of JAX's objects: batches, gradient norms, adapters and schedules."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..comparing.trace import MOST_RATES, Row, needed, rows_of_batch


class NormState(NamedTuple):
    """Optimizer state of `recorded_norm`: the norm of the last accumulated gradient."""

    norm: Any


def recorded_norm() -> Any:
    """An optax transformation that changes nothing and keeps the global norm of what passes through it.

    It sits inside MultiSteps, so that it sees the gradient of the whole accumulated batch, before clipping.
    """
    import jax.numpy as jnp
    import optax

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return updates, NormState(optax.global_norm(updates).astype(jnp.float32))

    return optax.GradientTransformation(lambda params: NormState(jnp.zeros((), jnp.float32)), update)


def adapter_of(runtime: Any, model: Any) -> dict[str, np.ndarray]:
    """The LoRA tensors of `model` under PEFT's names, float32; empty for a model without any."""
    from tunix.sft import utils

    if not utils.is_lora_enabled(model):
        return {}
    return {name: np.array(array, np.float32) for name, array in runtime.adapter_state(model).items()}


def trainer_mesh() -> str:
    """The mesh that training runs on, as "fsdp=2,tp=4"."""
    from jax.interpreters import pxla

    mesh = pxla.thread_resources.env.physical_mesh
    return ",".join(f"{name}={size}" for name, size in mesh.shape.items()) or "no mesh"


def evaluate_schedule(rate: Any, steps: int) -> list[float]:
    """The learning rate of every step up to `MOST_RATES`; a constant for a number, nothing for None."""
    steps = min(steps, MOST_RATES)
    if rate is None:
        return []
    if not callable(rate):
        return [float(rate)] * steps
    import jax
    import jax.numpy as jnp

    try:
        values = jax.vmap(rate)(jnp.arange(steps))
    except Exception:  # a user's schedule may be plain Python that can't be traced
        values = [rate(step) for step in range(steps)]
    return [float(value) for value in np.asarray(values, np.float64)]


def norm_of(state: Any) -> float | None:
    """The norm that the last `recorded_norm` of this optimizer state kept; None when the optimizer has none."""
    import jax

    def is_norm(node: Any) -> bool:
        return isinstance(node, NormState)

    norms = [leaf.norm for leaf in jax.tree_util.tree_leaves(state, is_leaf=is_norm) if is_norm(leaf)]
    if not norms:
        return None
    return float(np.asarray(norms[-1][...] if hasattr(norms[-1], "get_value") else norms[-1]))


def on_host(batch: Any) -> Any:
    """A batch whose arrays lie in several processes, read together on all of them; any other as it is."""
    if not isinstance(batch, dict) or all(getattr(array, "is_fully_addressable", True) for array in batch.values()):
        return batch
    from jax.experimental import multihost_utils

    return {name: np.asarray(multihost_utils.process_allgather(array, tiled=True)) for name, array in batch.items()}


def documents(batch: Any) -> list[Row]:
    """The documents of one batch that a port feeds: a dict or an object with Tunix's or our runtime's fields."""
    fields = batch if isinstance(batch, dict) else vars(batch)
    tokens = np.asarray(fields["input_tokens"])
    mask = next((np.asarray(fields[key]) for key in ("input_mask", "loss_mask") if key in fields), None)
    if "labels" in fields:
        labels = np.asarray(fields["labels"])
    else:
        labels = np.where(np.ones(tokens.shape, bool) if mask is None else mask.astype(bool), tokens, -100)
    if "attended" in fields:  # the row has padding, some of it idle
        held = np.asarray(fields["segment_ids"]) > 0
        return rows_of_batch(tokens, labels, keep=held & needed(np.asarray(fields["attended"]) & held, labels))
    if "segment_ids" in fields:
        return rows_of_batch(tokens, labels, segments=np.asarray(fields["segment_ids"]))
    keep = next((np.asarray(fields[key]) for key in ("pad_mask", "attention_mask") if key in fields), mask)
    return rows_of_batch(tokens, labels, keep=keep)
