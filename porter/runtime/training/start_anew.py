"""A trainer that trains again, as transformers' does when `train()` is called once more."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from tunix.sft.checkpoint_manager import CheckpointManager
from tunix.sft.metrics_logger import MetricsLogger
from tunix.sft.peft_trainer import PeftTrainer

from ..callbacks import best_policy
from ..saving.checkpoints import fresh_dir
from .hooks import LogLines


def start_anew(trainer: PeftTrainer) -> None:
    """Make a trainer that has trained ready for another `trainer.train(batches)`; nothing before its first.

    transformers' Trainer keeps model and optimizer: weights, Adam's moments and their count go on. Step 0, the learning
    rate's schedule, the order of the rows, the history and the best metric begin anew. Checkpoints go to a folder of
    their own, see `rt.fresh_dir`; the Trainer writes them over those of the training before.
    """
    hooks = trainer.training_hooks
    if not isinstance(hooks, LogLines) or hooks.asked is None:
        return
    config, (config.max_steps, folder) = trainer.config, hooks.asked
    if folder is not None:
        config.checkpoint_root_directory = fresh_dir(folder)
    policy = best_policy(config)
    if policy is not None:
        policy.step = None
    trainer.checkpoint_manager = CheckpointManager(config.checkpoint_root_directory, config.checkpointing_options)
    trainer.metrics_logger = MetricsLogger(config.metrics_logging_options)
    trainer._train_steps = trainer._iter_steps = 0
    trainer._buffered_train_metrics = trainer._prev_buffered_train_metrics = None
    hooks.anew()
    states = jax.tree.leaves(trainer.optimizer.opt_state, is_leaf=_is_schedule)
    for state in filter(_is_schedule, states):
        count = state.count
        count.set_value(jax.device_put(jnp.zeros_like(count.get_value()), count.get_value().sharding))


def _is_schedule(state: Any) -> bool:
    return isinstance(state, optax.ScaleByScheduleState)
