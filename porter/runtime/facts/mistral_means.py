"""Models whose class takes no number of a step's tokens, for those that are known when a script runs: Mistral under
transformers 4.46 and 4.47, and multimodal ones.

TrainerBatches(..., transformers=rt.counting_release(model, "4.46.3"))
optax.chain(optax.scale(rt.undivided(model, 4, "4.46.3")), ...)
"""

from __future__ import annotations

import re
from typing import Any

from .releases import LAST_OF_MEANS, release

# Hub ids whose checkpoint is of a multimodal class, which AutoModelForCausalLM loads, too.
MULTIMODAL = re.compile(r"(?:google|unsloth)/(?:gemma-3-(?:4b|12b|27b)|gemma-4-|medgemma-)", re.IGNORECASE)


def counting_release(model: Any, transformers: str) -> str:
    """The release whose means a step of `model` took under `transformers`: the last of means of means for Mistral."""
    return transformers if release(None, transformers).counts_tokens_of(_family(model)) else LAST_OF_MEANS


def undivided(model: Any, accumulation: int, transformers: str) -> float:
    """By what a gradient of `accumulation` micro-batches was too large, since nobody divided it: 1 but for these."""
    known = release(None, transformers)
    summed = known.sums_gradients_of("Trainer", _family(model)) or (known.sums_multimodal and _is_multimodal(model))
    return float(accumulation) if summed else 1.0


def mean_over(model: Any, transformers: str) -> str:
    """`mean_over=` of the batches: "micro_batch" for a multimodal model, whose loss is a mean of its own."""
    return "micro_batch" if release(None, transformers).averages_multimodal and _is_multimodal(model) else "step"


def _is_multimodal(model: Any) -> bool:
    """Whether the checkpoint is of a class with a vision tower, whose text part alone is trained here."""
    return not set(model.porter.config.get("architectures") or ()).isdisjoint(
        model.porter.family.table.get("multimodal", ())
    )


def _family(model: Any) -> str:
    """The family of a model that `load_model` made."""
    name: str = model.porter.family.name
    return name
