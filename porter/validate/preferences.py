"""Reads the documents of preference batches, as TRL's collators make them, in the order of the port's.

A pair is two documents, chosen before rejected; a row of KTO's is the completion, then the mismatched one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .trace import IGNORED, Row

# Metrics that TRL's trainers and the port's losses log under one name.
METRICS = (
    "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected",
    "kl", "nll_loss", "log_odds_ratio", "log_odds_chosen",
)  # fmt: skip


def is_preference(batch: Mapping[str, np.ndarray]) -> bool:
    """Whether a collated batch is one of TRL's preference trainers."""
    return ("completion_mask" in batch and "labels" not in batch) or "chosen_input_ids" in batch


def documents(batch: Mapping[str, np.ndarray]) -> list[Row]:
    """The documents of a collated batch of TRL's DPO, ORPO, CPO or KTO trainer."""
    if "chosen_input_ids" in batch:
        parts = [_rows(batch, f"{side}_", batch[f"{side}_labels"]) for side in ("chosen", "rejected")]
    elif "KL_input_ids" in batch:
        parts = [_rows(batch, prefix, _labels(batch, prefix)) for prefix in ("", "KL_")]
    else:
        rows = _rows(batch, "", _labels(batch, ""))
        parts = [rows] if "label" in batch else [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return [row for together in zip(*parts, strict=True) for row in together]


def stored_metrics(trainer: Any, mode: str = "train") -> dict[str, list[float]]:
    """What a TRL trainer has stored of `METRICS` since it last logged.

    Nothing of those that sample: what they store is told by their loss and its gradient.
    """
    if hasattr(trainer, "reward_funcs"):
        return {}
    found = getattr(trainer, "_metrics", None) or getattr(trainer, "_stored_metrics", None) or {}
    stored = found.get(mode, {})
    return {name: list(stored[name]) for name in METRICS if name in stored}


def means(micro: list[dict[str, float]]) -> dict[str, float]:
    """Each metric's mean over the micro-batches that have it, as the trainers log it."""
    names = dict.fromkeys(name for metrics in micro for name in metrics)
    found = {name: [m[name] for m in micro if np.isfinite(m.get(name, np.nan))] for name in names}
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def _labels(batch: Mapping[str, np.ndarray], prefix: str) -> np.ndarray:
    return np.where(batch[f"{prefix}completion_mask"] == 1, batch[f"{prefix}input_ids"], IGNORED)


def _rows(batch: Mapping[str, np.ndarray], prefix: str, labels: np.ndarray) -> list[Row]:
    arrays = zip(batch[f"{prefix}input_ids"], labels, batch[f"{prefix}attention_mask"].astype(bool), strict=True)
    return [Row.of(ids[keep], wanted[keep]) for ids, wanted, keep in arrays]
