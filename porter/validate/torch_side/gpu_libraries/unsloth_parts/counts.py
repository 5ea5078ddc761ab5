"""Unsloth's count of a step's tokens in transformers' Trainer, which it puts there when it loads a model.

Written apart from the port's `runtime.facts.releases`, which it is to be compared with.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .....runtime.facts.field_tables import version_key

IGNORED = -100
SETTLES = (2026, 4, 5)  # the release of Unsloth from which on accelerate divides no gradient
TAKEN_SINCE = (4, 48)  # transformers from which every model of Unsloth's takes the count itself


def count_in_trainer(release: str = "") -> None:
    """Let Trainer divide a step's loss by Unsloth's count, in the releases that count one (from 4.46 on), and
    accelerate not divide its gradient once more, under a `release` of Unsloth's that sees to it."""
    import transformers

    trainer: Any = transformers.Trainer
    if release and version_key(release) >= SETTLES and not hasattr(trainer, "_unsloth_settles"):
        trainer.__init__, trainer._unsloth_settles = _settling(trainer.__init__), True
    if not hasattr(trainer, "get_batch_samples") or counts(trainer):
        return
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    trainer.get_batch_samples = _batch_samples(scales=version < TAKEN_SINCE)
    trainer.compute_loss = _with_count(trainer.compute_loss)
    trainer._unsloth_counts = True


def _settling(original: Any) -> Any:
    """Trainer.__init__ behind which accelerate knows of no accumulation: from 5.0 to 5.5 it divides by it, too."""

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if getattr(self.accelerator, "gradient_accumulation_steps", 1) > 1:
            self.accelerator.gradient_accumulation_steps = 1

    return __init__


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
