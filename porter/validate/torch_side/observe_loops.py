"""Watches a training loop written by hand on torch: its batches, losses, clipping and steps.

There is no trainer to ask. What the loop does is seen where it meets torch: a model's forward pass with labels, a
tensor's backward, clipping, an optimizer's step. Rows are shuffled in the port's order on both sides, because torch's
own comes from a generator that everything else draws from, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .observer_torch import Observer

SEED = 42  # of a port whose source sets none


class Watch:
    """What one loop shows of itself, told to the observer as a Trainer would."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.model: Any = None
        self.limit: float | None = None
        self.micro = 0
        self.seed = SEED
        self.epochs = 0
        self.busy = False  # inside a Trainer, which tells its own story
        self.bare: tuple[Any, Any, Any, Any] | None = None  # a forward pass without labels, whose loss is still to come
        self.outer: Any = None  # the PEFT model around the one of that pass
        self.outputs: Any = None  # of the last micro-batch

    def forward(self, module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        """After any module's forward pass: one of a whole model with labels and gradients is a micro-batch.

        (A loop that never calls `model.train()` trains too.)
        """
        import torch
        import transformers

        labels = kwargs.get("labels")
        if self.busy or self.observer.done:
            return
        if not torch.is_grad_enabled():
            if labels is not None and isinstance(module, transformers.PreTrainedModel):
                self.observer.evaluated(outputs)
            return
        if labels is None:
            if isinstance(module, transformers.PreTrainedModel) and module.get_output_embeddings() is not None:
                self.bare, self.outer = (module, args, kwargs, outputs), None
            elif hasattr(module, "peft_config") and self.bare is not None:
                self.outer = module
            return
        if isinstance(module, transformers.PreTrainedModel):
            self._micro_batch(module, args, kwargs, outputs)
        elif hasattr(module, "peft_config"):
            base = getattr(module, "model", None)
            if outputs is not self.outputs and isinstance(base, transformers.PreTrainedModel):
                self._micro_batch(base, args, kwargs, outputs)  # whose `forward` PEFT has called past its hooks
            if self.model is not None:
                self.model = module  # around the one above

    def _micro_batch(self, module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        self.bare, self.outputs = None, outputs
        ids = kwargs.get("input_ids", args[0] if args else None)
        self.observer.batch({"attention_mask": None, **kwargs, "input_ids": ids})
        self.observer.row_loss(module, args, kwargs, outputs)
        self.model = module
        self.micro += 1

    def crossed(self, target: Any, ignored: int) -> None:
        """A cross-entropy of the loop's own: its targets are the labels of the forward pass that had none."""
        import torch

        if self.bare is None or self.busy or not torch.is_grad_enabled():
            return
        module, args, kwargs, outputs = self.bare
        ids = kwargs.get("input_ids", args[0] if args else None)
        if target.numel() != ids[:, 1:].numel():
            return
        self.bare = None
        labels = torch.full_like(ids, -100)
        labels[:, 1:] = target.reshape(ids.shape[0], -1)
        labels[labels == ignored] = -100
        self._micro_batch(module, args, {**kwargs, "labels": labels}, outputs)
        self.model = self.outer or module

    def backward(self, loss: Any) -> None:
        if not self.busy and loss.dim() == 0:
            self.observer.loss(loss.detach())

    def clipped(self, norm: Any, limit: Any) -> None:
        if not self.busy:
            self.limit = float(limit)
        self.observer.norm(norm)

    def before_step(self, optimizer: Any) -> None:
        if self.busy or self.model is None:
            return
        if not self.observer.initial:
            self.observer.begin_loop(self.model, optimizer, self._settings())
        self.observer.rate(optimizer)

    def after_step(self) -> None:
        if self.busy or self.model is None:
            return
        self.micro = 0
        self.observer.step()
        if len(self.observer.steps) >= self.observer.settings.steps or self.observer.is_late():
            self.ended()
            self.observer.events.add("cut")
            raise SystemExit(0)  # what follows the loop is not run: the trace is whole

    def ended(self) -> None:
        """The script has ended, or the loop has made enough steps."""
        if self.observer.steps and not self.observer.done:
            self.observer.finished(SimpleNamespace(model=self.model))

    def _settings(self) -> Any:
        return SimpleNamespace(
            max_grad_norm=self.limit, seed=self.seed, gradient_accumulation_steps=self.micro, world_size=1
        )

    def order(self, rows: int) -> Iterator[int]:
        """The port's order of the next epoch."""
        from ...runtime.batches.order import epoch_order

        self.epochs += 1
        return iter(epoch_order(rows, sampling="random", seed=self.seed, epoch=self.epochs - 1).tolist())


def patch_loops(observer: Observer) -> Watch:
    """Loops that a script writes itself tell the observer what they do; the one who watches them."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    watch = Watch(observer)
    torch.nn.modules.module.register_module_forward_hook(watch.forward, with_kwargs=True)
    register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: watch.before_step(optimizer))
    register_optimizer_step_post_hook(lambda optimizer, args, kwargs: watch.after_step())
    _patch_trainer(watch)
    _patch_clipping(watch)
    _patch_cross_entropy(watch)
    _patch_seeds(watch)
    backward = torch.Tensor.backward

    @functools.wraps(backward)
    def patched_backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.backward(self)
        return backward(self, *args, **kwargs)

    torch.Tensor.backward = patched_backward
    sampler = torch.utils.data.RandomSampler

    @functools.wraps(sampler.__iter__)
    def patched_iter(self: Any) -> Iterator[int]:
        return original_iter(self) if watch.busy or self.replacement else watch.order(len(self.data_source))

    original_iter = sampler.__iter__
    sampler.__iter__ = patched_iter
    return watch


def _patch_trainer(watch: Watch) -> None:
    import transformers

    train = transformers.Trainer.train

    @functools.wraps(train)
    def patched_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.busy = True
        try:
            return train(self, *args, **kwargs)
        finally:
            watch.busy = False

    transformers.Trainer.train = patched_train


def _patch_clipping(watch: Watch) -> None:
    """torch's own clipping; accelerate's calls it."""
    import torch

    clip = torch.nn.utils.clip_grad_norm_

    @functools.wraps(clip)
    def patched(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
        norm = clip(parameters, max_norm, *args, **kwargs)
        watch.clipped(norm, max_norm)
        return norm

    torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = patched


def _patch_cross_entropy(watch: Watch) -> None:
    import torch

    original = torch.nn.functional.cross_entropy

    @functools.wraps(original)
    def patched(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        watch.crossed(target, kwargs.get("ignore_index", -100))
        return original(input, target, *args, **kwargs)

    torch.nn.functional.cross_entropy = patched


def _patch_seeds(watch: Watch) -> None:
    import torch

    seed = torch.manual_seed

    @functools.wraps(seed)
    def patched(number: Any) -> Any:
        if not watch.busy and watch.model is None:
            watch.seed = int(number)
        return seed(number)

    torch.manual_seed = torch.random.manual_seed = patched


def settings_of(args: Any, model: Any, optimizer: Any, initial: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a loop shows of its settings; how many steps the whole run has, it doesn't."""
    from .read_torch import describe

    found = describe(args, SimpleNamespace(max_steps=0), model, optimizer, {n: a.shape for n, a in initial.items()})
    del found["steps"]
    return found
