"""What a trainer measures of its own beside the loss, as TRL's do: means of what its loss tells, tokens, seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..facts.releases.lines import Lines
from ..losses.for_metrics import for_metrics

COUNT = "count/"  # how many rows of a kind a micro-batch has


def lines_of(trainer: Any, eval_batches: Any = None) -> Lines | None:
    """What the GPU run's trainer does with its own metrics; None for transformers' own Trainer.

    Before the training `eval_batches` know it.
    """
    found: Lines | None = getattr(_batches(trainer, eval_batches), "lines", None)
    return found


@contextmanager
def telling(trainer: Any, batch: Any) -> Iterator[None]:
    """A trainer whose loss tells what it measures of `batch` beside, where it can, see losses/for_metrics.py."""
    plain, evaluated, has_aux = trainer.loss_fn, trainer.eval_loss_fn, trainer._has_aux
    if _can_tell(trainer):
        trainer.loss_fn = trainer.eval_loss_fn = plain.with_metrics(for_metrics(batch))
        trainer._has_aux = True
    try:
        yield
    finally:
        trainer.loss_fn, trainer.eval_loss_fn, trainer._has_aux = plain, evaluated, has_aux


def keep(trainer: Any, told: Any, buffer: Any) -> None:
    """Have what a micro-batch's loss told logged: a step's is the mean over its micro-batches, an evaluation's over
    its batches."""
    if not _can_tell(trainer):
        return
    trainer.metric_names = tuple(told)
    for name, value in told.items():
        op = np.mean if value.ndim == 0 else _highest if name.endswith("_max") else _lowest
        buffer.additional_metrics.setdefault(name, ([], op))[0].append(value)


def _can_tell(trainer: Any) -> bool:
    return hasattr(trainer.loss_fn, "with_metrics")


def _highest(values: Any) -> Any:
    """The mean of micro-steps' highest values, (micro-batches, micro-steps); infinite where a step has no row."""
    found = np.max(np.asarray(values), axis=0)
    return np.mean(found[np.isfinite(found)]) if np.isfinite(found).any() else np.nan


def _lowest(values: Any) -> Any:
    return -_highest(-np.asarray(values))


def measured(trainer: Any, mode: str, steps: int) -> dict[str, float]:
    """What the loss tells (`PreferenceTrainer`'s rewards): means over the last `steps`."""
    if (told := getattr(trainer, "told", None)) is not None:
        return _of_micro_batches(
            {name: np.concatenate(values[-steps:]) for name, values in told[mode].items()}, lines_of(trainer)
        )
    found = {}
    for name in getattr(trainer, "metric_names", ()):
        try:
            history = trainer.metrics_logger.get_metric_history(trainer.metrics_prefix, name, mode)
        except (KeyError, ValueError):  # a MetricsTrainer's evaluation, whose batches are those of its predictions
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
    values = {name: np.asarray([each[name] for each in told], np.float32) for name in (told[0] if told else ())}
    found = _of_micro_batches(values, lines_of(trainer, eval_batches))
    found |= counts(trainer, first, int(trainer.train_steps), eval_batches)
    return {f"eval_{name}": value for name, value in found.items()}


def _of_micro_batches(values: Mapping[str, np.ndarray], lines: Lines | None) -> dict[str, float]:
    """The means of what micro-batches told, or of their rows, of which `count/chosen` and `count/rejected` tell."""
    means = {name: _mean(each) for name, each in values.items() if not name.startswith(COUNT)}
    found = {name: mean for name, mean in means.items() if mean is not None}
    if lines is None or not lines.by_rows:
        return found
    for name in found:
        if (rows := values.get(f"{COUNT}{name.partition('/')[2]}")) is not None:
            found[name] = float(np.nansum(values[name] * rows) / np.nansum(rows))
    if {"rewards/chosen", "rewards/rejected"} <= found.keys():
        found["rewards/margins"] = found["rewards/chosen"] - found["rewards/rejected"]
    return found


def _mean(values: Any) -> float | None:
    """The mean of what there is; None where there is nothing."""
    found = np.asarray(values, np.float32)
    return float(np.nanmean(found)) if np.any(np.isfinite(found)) else None


def _batches(trainer: Any, eval_batches: Any) -> Any:
    return getattr(trainer, "trains_on", None) or getattr(eval_batches, "training", None)
