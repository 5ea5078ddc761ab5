"""What a batch has for logged metrics alone: its keys begin with `for_metrics/`, and no loss is called with them.

Nearly all say what a token or a row counts in a metric, so that the metric's mean over a step's micro-batches is TRL's.
`model_inputs` leaves them out. A loss that tells metrics has `with_metrics(for_metrics(batch))`, the same loss with
them beside it, which a trainer's step takes in its place, see training/own_metrics.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "for_metrics/"


def for_metrics(batch: Any) -> dict[str, Any]:
    """What `batch` has for metrics, by the names that `named` gave; nothing of a batch that isn't the runtime's."""
    found = batch.items() if isinstance(batch, Mapping) else ()
    return {name.removeprefix(PREFIX): array for name, array in found if name.startswith(PREFIX)}


def but_for_metrics(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The rest."""
    return {name: array for name, array in batch.items() if not name.startswith(PREFIX)}


def named(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """`arrays` under the names that a batch has them by."""
    return {f"{PREFIX}{name}": array for name, array in arrays.items()}
