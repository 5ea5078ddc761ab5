"""Unsloth's count of a step's tokens in transformers' Trainer, which it puts there when it loads a model.

Written apart from the port's `runtime.facts.releases`, which it is to be compared with.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

IGNORED = -100
TAKEN_SINCE = (4, 48)  # transformers from which every model of Unsloth's takes the count itself


def count_in_trainer() -> None:
    """Let Trainer divide a step's loss by Unsloth's count, in the releases that count one (from 4.46 on)."""
    import transformers

    trainer: Any = transformers.Trainer
    if not hasattr(trainer, "get_batch_samples") or counts(trainer):
        return
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    trainer.get_batch_samples = _batch_samples(scales=version < TAKEN_SINCE)
    trainer.compute_loss = _with_count(trainer.compute_loss)
    trainer._unsloth_counts = True


def counts(trainer: Any) -> bool:
    """Whether Unsloth counts the tokens of that class."""
    return hasattr(trainer, "_unsloth_counts")


def predicted(batch: Mapping[str, Any]) -> Any:
    """How many tokens of a batch the loss is over: a row's first has nothing before it, padding isn't attended to."""
    labelled = batch["labels"][..., 1:] != IGNORED
    if "attention_mask" in batch:
        labelled = labelled & (batch["attention_mask"][..., 1:] != 0)
    return labelled.sum()


def _batch_samples(scales: bool) -> Any:
    """Trainer.get_batch_samples: the micro-batches of a step, and the tokens of all of them.

    `scales`: models that take no such number are scaled by it afterwards, as Unsloth's Mistral was there.
    """

    def get_batch_samples(self: Any, epoch_iterator: Iterator[Any], num_batches: int, *device: Any) -> Any:
        batches = list(itertools.islice(epoch_iterator, num_batches))
        self._unsloth_items = _items(batches) if scales or self.model_accepts_loss_kwargs else None
        return batches, self._unsloth_items

    return get_batch_samples


def _items(batches: Sequence[Any]) -> Any:
    labelled = bool(batches) and isinstance(batches[0], Mapping) and batches[0].get("labels") is not None
    return sum(predicted(batch) for batch in batches) if labelled else None


def _with_count(original: Any) -> Any:
    """Trainer.compute_loss that is told the count while it trains, also by the releases that forgot to."""

    @functools.wraps(original)
    def compute_loss(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        items = getattr(self, "_unsloth_items", None) if model.training else None
        if items is None or (not self.model_accepts_loss_kwargs and "labels" not in inputs):
            return original(self, model, inputs, *args, **kwargs)
        if self.model_accepts_loss_kwargs:
            return original(self, model, inputs, *args, **{**kwargs, "num_items_in_batch": items})
        share = predicted(inputs) / items
        made = original(self, model, inputs, *args, **kwargs)
        return (made[0] * share, made[1]) if isinstance(made, tuple) else made * share

    return compute_loss
