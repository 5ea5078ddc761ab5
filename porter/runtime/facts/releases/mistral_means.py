"""Models whose class takes no number of a step's tokens, for those that are known when a script runs: Mistral under
transformers 4.46 and 4.47, and multimodal ones.

TrainerBatches(..., mean_over=rt.mean_over(model, "4.46.3"), transformers="4.46.3")
optax.chain(optax.scale(rt.undivided(model, 4, "4.46.3")), ...)
"""

from __future__ import annotations

import re
from typing import Any

from . import release

# Checkpoints of a multimodal class, which AutoModelForCausalLM loads, too: their names, and the Hub ids of those.
NAMES = r"(?:gemma-3-(?:4b|12b|27b)|gemma-4-|medgemma-(?!27b-text)|translategemma-)"
NAMED_MULTIMODAL = re.compile(rf"(?:^|/){NAMES}", re.IGNORECASE)
MULTIMODAL = re.compile(rf"(?:google|unsloth)/{NAMES}", re.IGNORECASE)


def undivided(model: Any, accumulation: int, transformers: str) -> float:
    """By what a gradient of `accumulation` micro-batches was too large, since nobody divided it: 1 but for these."""
    known = release(None, transformers)
    summed = known.sums_gradients_of("Trainer", _family(model)) or (known.sums_multimodal and _is_multimodal(model))
    return float(accumulation) if summed else 1.0


def mean_over(model: Any, transformers: str) -> str:
    """`mean_over=` of the batches: "micro_batch" for a model whose loss is a mean of its own."""
    known = release(None, transformers)
    apart = not known.counts_tokens_of(_family(model)) or (known.averages_multimodal and _is_multimodal(model))
    return "micro_batch" if apart else "step"


def _is_multimodal(model: Any) -> bool:
    """Whether the checkpoint is of a class with a vision tower, whose text part alone is trained here."""
    return not set(model.porter.config.get("architectures") or ()).isdisjoint(
        model.porter.family.table.get("multimodal", ())
    )


def _family(model: Any) -> str:
    """The family of a model that `load_model` made."""
    name: str = model.porter.family.name
    return name
