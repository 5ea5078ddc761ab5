"""Reads the documents of preference batches, as TRL's collators make them, in the order of the port's.

A pair is two documents, chosen before rejected; a row of KTO's is the completion, then the mismatched one.
"""

from __future__ import annotations

import inspect
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
    return ("completion_mask" in batch and "labels" not in batch) or bool(
        {"chosen_input_ids", "completion_input_ids"} & set(batch)
    )


def documents(batch: Mapping[str, np.ndarray], cut: tuple[int | None, str] = (None, "start")) -> list[Row]:
    """The documents of a collated batch of TRL's DPO, ORPO, CPO or KTO trainer; `cut` as `cut_of` tells it."""
    if {"prompt_input_ids", "chosen_input_ids"} <= set(batch) and "chosen_labels" not in batch:
        parts = _after_prompts(batch, *cut)
    elif "chosen_input_ids" in batch:
        parts = [_rows(batch, f"{side}_", batch[f"{side}_labels"]) for side in ("chosen", "rejected")]
    elif "completion_input_ids" in batch:  # KTO until its rows got the names of the others
        prefixes = [f"{prefix}completion_" for prefix in ("", "KL_") if f"{prefix}completion_input_ids" in batch]
        parts = [_rows(batch, prefix, batch[f"{prefix}labels"]) for prefix in prefixes]
    elif "KL_input_ids" in batch:
        parts = [_rows(batch, prefix, _labels(batch, prefix)) for prefix in ("", "KL_")]
    else:
        rows = _rows(batch, "", _labels(batch, ""))
        parts = [rows] if "label" in batch else [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    found = [row for together in zip(*parts, strict=True) for row in together]
    return [row for row in found if row.tokens.size] if cut[1] == "columns" else found


def cut_of(trainer: Any) -> tuple[int | None, str]:
    """How a DPO trainer of TRL 0.12 to 0.28 cuts its rows once they are a batch: the tokens kept, and which ones.

    "start" and "end" of each row; "columns": the last ones of the padded batch, of which a short row has fewer.
    """
    cls = next((each for each in type(trainer).__mro__ if "concatenated_forward" in vars(each)), None)
    if cls is None or getattr(trainer, "max_length", None) is None:
        return None, "start"
    text = inspect.getsource(vars(cls)["concatenated_forward"])
    if "truncation_mode" not in text or getattr(trainer, "truncation_mode", "") == "keep_start":
        return trainer.max_length, "start"
    return trainer.max_length, "end" if "flush_right" in text else "columns"


def _after_prompts(batch: Mapping[str, np.ndarray], limit: int | None, kept: str) -> list[list[Row]]:
    """Rows of prompts and completions that TRL joins and cuts in its forward pass."""
    found = []
    for side in ("chosen", "rejected"):
        names = [f"{part}_{name}" for part in ("prompt", side) for name in ("input_ids", "attention_mask")]
        for prompt, keep, completion, mask in zip(*(batch[name] for name in names), strict=True):
            asked, answer = prompt[keep > 0], completion[mask > 0]
            labels = np.concatenate([np.full(len(asked), IGNORED), answer])
            found.append((np.concatenate([asked, answer]), labels))
    columns = max(len(tokens) for tokens, _ in found)
    rows = []
    for tokens, labels in found:
        width = columns if kept == "columns" else len(tokens)
        first = 0 if limit is None or kept == "start" else max(0, width - limit)
        last = limit if limit is not None and kept == "start" else len(tokens)
        rows.append(Row.of(tokens[first:last], labels[first:last]))
    return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]


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
    seen = batch[f"{prefix}attention_mask"].astype(bool)
    # TRL before 0.7.5 hides end tokens within a document, which are trained and fed all the same.
    held = np.logical_or.accumulate(seen, axis=1) & np.logical_or.accumulate(seen[:, ::-1], axis=1)[:, ::-1]
    arrays = zip(batch[f"{prefix}input_ids"], labels, held, strict=True)
    return [Row.of(ids[keep], wanted[keep]) for ids, wanted, keep in arrays]
