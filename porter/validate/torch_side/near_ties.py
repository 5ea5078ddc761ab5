"""Counts an evaluation's predictions that a last digit decides: a metric of them can't be held to be exact."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

GAP = 1e-5  # of the largest logit: what float32 leaves unknown of one


class NearTies:
    """The share of near ties among the predictions since it was last taken."""

    def __init__(self) -> None:
        self.ties = self.all = 0

    def take(self) -> float:
        """The share since the last call, 0 where nothing was predicted."""
        share = self.ties / self.all if self.all else 0.0
        self.ties = self.all = 0
        return share

    def see(self, logits: Any, labels: Any = None) -> None:
        """Count the rows of `logits` (..., classes) whose two largest are as good as equal; others are left out.

        Rows whose label, of the same leading shape, is -100 don't count.
        """
        if isinstance(logits, tuple | list):
            logits = logits[0] if logits else None
        if hasattr(logits, "detach"):
            logits = logits.detach().float().cpu().numpy()
        if not isinstance(logits, np.ndarray) or logits.ndim < 2 or logits.shape[-1] < 2 or logits.dtype.kind != "f":
            return
        top = np.partition(logits, -2, axis=-1)[..., -2:]
        near = top[..., 1] - top[..., 0] <= GAP * np.maximum(np.abs(top).max(axis=-1), 1.0)
        if hasattr(labels, "detach"):
            labels = labels.detach().cpu().numpy()
        if isinstance(labels, np.ndarray) and labels.shape == near.shape:
            near = near[labels != -100]
        self.ties += int(near.sum())
        self.all += int(near.size)

    def watch(self, trainer: Any) -> None:
        """See what `trainer` gives to preprocess_logits_for_metrics, or else to compute_metrics."""
        preprocess, compute = trainer.preprocess_logits_for_metrics, trainer.compute_metrics
        if compute is None:
            return
        if preprocess is not None:

            @functools.wraps(preprocess)
            def seen(logits: Any, labels: Any) -> Any:
                self.see(logits, labels)
                return preprocess(logits, labels)

            trainer.preprocess_logits_for_metrics = seen
            return

        @functools.wraps(compute)
        def computed(predictions: Any, *args: Any, **kwargs: Any) -> Any:
            self.see(predictions.predictions, predictions.label_ids)
            return compute(predictions, *args, **kwargs)

        trainer.compute_metrics = computed
