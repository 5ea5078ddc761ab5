"""A training step that returns what it changed, and nothing else: frozen weights stay where they are.

google-tunix 0.1.7's PeftTrainer jits its step in flax's graph mode, which returns every variable of the model, without
donating them: XLA keeps the frozen weights twice, and copies them in every micro-batch (Gemma 4 31B on v5p-8: 14.3 GiB
a chip). With `graph_updates=False` flax returns the variables that were assigned: adapters, optimizer state, counters.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from flax import nnx
from jax.interpreters import pxla


def return_only_changes() -> None:
    """Let PeftTrainer, and what derives from it, jit the steps of a model with LoRA so; other models as upstream.

    Nothing happens with a Tunix that jits another way.
    """
    from tunix.sft.peft_trainer import PeftTrainer

    upstream = PeftTrainer.jit_train_and_eval_step
    if getattr(upstream, "returns_only_changes", False) or not returns_everything(upstream):
        return

    @functools.wraps(upstream)
    def jit_train_and_eval_step(self: Any, skip_jit: bool = False, cache_nnx_graph: bool = False) -> Any:
        if skip_jit or getattr(self.model, "lora", None) is None:
            return upstream(self, skip_jit, cache_nnx_graph)
        if self._jitted_train_step_fn is None:
            self._shard_optimizer(pxla.thread_resources.env.physical_mesh)
            train = jitted(self.create_train_step_fn())
            evaluate = nnx.jit(self.create_eval_step_fn(), graph_updates=False)
            # Tunix asks these for `.func.jitted_fn`.
            self._jitted_train_step_fn = functools.partial(train, self.model, self.optimizer)
            self._jitted_eval_step_fn = functools.partial(evaluate, self.model)
        return self._jitted_train_step_fn, self._jitted_eval_step_fn

    jit_train_and_eval_step.returns_only_changes = True  # type: ignore[attr-defined]
    PeftTrainer.jit_train_and_eval_step = jit_train_and_eval_step


def jitted(train_step: Any) -> Any:
    """A step (model, optimizer, batch) that gives back what it assigns, in the optimizer's old memory where it can."""
    return nnx.jit(train_step, donate_argnames=("optimizer",), graph_updates=False)


def returns_everything(jit_train_and_eval_step: Any) -> bool:
    """Whether this Tunix jits in graph mode without donating the model, whatever its version says."""
    source = inspect.getsource(jit_train_and_eval_step)
    return 'donate_argnames=("optimizer",)' in source and "graph_updates" not in source
