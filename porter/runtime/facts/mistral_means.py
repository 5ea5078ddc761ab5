"""Mistral under transformers 4.46 and 4.47, whose class took no number of tokens, for models known when a script runs.

TrainerBatches(..., transformers=rt.counting_release(model, "4.46.3"))
optax.chain(optax.scale(rt.undivided(model, 4, "4.46.3")), ...)
"""

from __future__ import annotations

from typing import Any

from .releases import LAST_OF_MEANS, release


def counting_release(model: Any, transformers: str) -> str:
    """The release whose means a step of `model` took under `transformers`: the last of means of means for Mistral."""
    return transformers if release(None, transformers).counts_tokens_of(_family(model)) else LAST_OF_MEANS


def undivided(model: Any, accumulation: int, transformers: str) -> float:
    """By what a gradient of `accumulation` micro-batches was too large, since nobody divided it: 1 but for Mistral."""
    summed = release(None, transformers).sums_gradients_of("Trainer", _family(model))
    return float(accumulation) if summed else 1.0


def _family(model: Any) -> str:
    """The family of a model that `load_model` made."""
    name: str = model.porter.family.name
    return name
