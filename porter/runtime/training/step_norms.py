"""The gradient norm that transformers logs: of the whole step's mean gradient, before clipping.

google-tunix 0.1.7 logs the mean of its micro-batches' norms, which is larger, and of K and V in one tensor also that of
blocks which train nothing. The accumulated gradient and its norm are computed by Optax in each micro-batch in any case,
MultiSteps' and clipping's; here they are named, and XLA finds that they are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from .own_metrics import keep, telling


def log_steps() -> None:
    """Let PeftTrainer, and what derives from it, give its logger the norms of whole steps, and what its loss tells,
    see `own_metrics.telling`."""
    from tunix.sft.peft_trainer import PeftTrainer

    upstream, after_step = PeftTrainer._train_step, PeftTrainer._post_process_train_step
    evaluates, after_evaluation = PeftTrainer._eval_step, PeftTrainer._post_process_eval_step
    if getattr(upstream, "gives_norms_of_steps", False):
        return

    @functools.wraps(upstream)
    def _train_step(self: Any, model: nnx.Module, optimizer: nnx.Optimizer, inputs: Any) -> Any:
        watched = _Watched(optimizer)
        with telling(self, inputs):
            loss, aux, of_micro_batch = upstream(self, model, watched, inputs)
        return loss, aux, of_micro_batch if watched.norm is None else watched.norm

    @functools.wraps(evaluates)
    def _eval_step(self: Any, model: nnx.Module, inputs: Any) -> Any:
        with telling(self, inputs):
            return evaluates(self, model, inputs)

    @functools.wraps(after_step)
    def _post_process_train_step(self: Any, aux: Any) -> None:
        after_step(self, aux)
        keep(self, aux, self._buffered_train_metrics)

    @functools.wraps(after_evaluation)
    def _post_process_eval_step(self: Any, aux: Any) -> None:
        after_evaluation(self, aux)
        keep(self, aux, self._buffered_eval_metrics)

    _train_step.gives_norms_of_steps = True  # type: ignore[attr-defined]
    PeftTrainer._train_step, PeftTrainer._post_process_train_step = _train_step, _post_process_train_step
    PeftTrainer._eval_step, PeftTrainer._post_process_eval_step = _eval_step, _post_process_eval_step


class _Watched:
    """An optimizer, for one traced step, that keeps the norm of the gradient it is given."""

    def __init__(self, optimizer: nnx.Optimizer) -> None:
        self._optimizer = optimizer
        self.norm: jax.Array | None = None

    def update(self, model: nnx.Module, grads: Any, **more: Any) -> Any:
        optimizer = self._optimizer
        gradient = nnx.as_pure(nnx.state(grads, optimizer.wrt))
        self.norm = norm_of_step(optimizer.tx, gradient, nnx.as_pure(optimizer.opt_state))
        return optimizer.update(model, grads, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def norm_of_step(tx: Any, gradient: Any, state: Any) -> jax.Array:
    """The norm of a step's mean gradient as it comes to clipping, a float32 scalar.

    With accumulated gradients it is 0 for all micro-batches but a step's last, and times their number for that one:
    Tunix logs the mean over them.
    """
    if not isinstance(tx, optax.MultiSteps):
        return optax.global_norm(_to_clipping(tx, gradient)).astype(jnp.float32)
    micro, every = state.mini_step, tx._every_k_schedule(state.gradient_step)
    mean = jax.tree.map(lambda leaf, mean: tx._acc_update(leaf, mean, n_acc=micro), gradient, state.acc_grads)
    norm = optax.global_norm(_to_clipping(tx.inner_opt, optax.tree.cast_like(mean, gradient)))
    return jnp.where(micro == every - 1, norm.astype(jnp.float32) * every, 0.0)


def _to_clipping(tx: Any, gradient: Any) -> Any:
    """What becomes of a gradient in a port's chain up to its clipping, else up to its optimizer."""
    for update in _links(tx.update):
        owner, held = update.__qualname__.split(".")[0], _held(update)
        if owner == "scale" and not isinstance(held["step_size"], jax.core.Tracer) and held["step_size"] < 0:
            break  # of an optimizer: its learning rate
        if owner not in ("separate_kv", "scale", "identity"):
            break
        gradient, _ = update(gradient, optax.EmptyState(), None)
    return gradient


def _links(update: Callable[..., Any]) -> list[Any]:
    """The updates of a chain in their order, those of chains within it in their places."""
    held = _held(update)
    if (tx := held.get("tx")) is not None and update.__qualname__.startswith("with_extra_args_support."):
        return _links(tx.update)
    if update.__qualname__.startswith("chain."):
        return [link for each in held["update_fns"] for link in _links(each)]
    return [update]


def _held(update: Any) -> dict[str, Any]:
    cells = getattr(update, "__closure__", None) or ()
    names = update.__code__.co_freevars if cells else ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}
