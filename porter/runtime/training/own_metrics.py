"""What a trainer measures of its own beside the loss, as TRL's do: means of what its loss tells, tokens, seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..facts.releases.lines import Lines


def lines_of(trainer: Any, eval_batches: Any = None) -> Lines | None:
    """What the GPU run's trainer does with its own metrics; None for transformers' own Trainer.

    Before the training `eval_batches` know it.
    """
    found: Lines | None = getattr(_batches(trainer, eval_batches), "lines", None)
    return found


def measured(trainer: Any, mode: str, steps: int) -> dict[str, float]:
    """What the loss tells (`PreferenceTrainer`'s rewards): means over the last `steps`."""
    found = {}
    for name in getattr(trainer, "metric_names", ()):
        try:
            history = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, name, mode)
        except KeyError:  # a MetricsTrainer's evaluation, whose batches are those of its predictions
            continue
        if (mean := _mean(history[-steps:])) is not None:
            found[name] = mean
    return found


def counts(trainer: Any, first: int, until: int, eval_batches: Any = None) -> dict[str, float]:
    """What the batches count of the steps behind `first` up to `until`, under the names that the GPU run logged."""
    count = getattr(_batches(trainer, eval_batches), "counts", None)
    return {} if count is None else dict(count(first, until))


def times_steps(trainer: Any) -> bool:
    """Whether the GPU run logged `step_time`."""
    return bool(getattr(getattr(getattr(trainer, "trains_on", None), "logged", None), "times_steps", False))


def of_evaluation(trainer: Any, eval_batches: Any, told: Sequence[Mapping[str, Any]], first: int) -> dict[str, float]:
    """What an evaluation's line has, `told` by the loss of each of its batches; TRL's are `eval_` whatever the set.

    `first`: the step that the run goes on from.
    """
    means = {name: _mean([each[name] for each in told]) for name in (told[0] if told else ())}
    found = {name: mean for name, mean in means.items() if mean is not None}
    found |= counts(trainer, first, int(trainer.train_steps), eval_batches)
    return {f"eval_{name}": value for name, value in found.items()}


def _mean(values: Any) -> float | None:
    """The mean of what there is; None where there is nothing."""
    found = np.asarray(values, np.float32)
    return float(np.nanmean(found)) if np.any(np.isfinite(found)) else None


def _batches(trainer: Any, eval_batches: Any) -> Any:
    return getattr(trainer, "trains_on", None) or getattr(eval_batches, "training", None)
