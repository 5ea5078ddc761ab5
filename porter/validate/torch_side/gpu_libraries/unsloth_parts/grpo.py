"""Unsloth's own loss of GRPO, made of TRL's: that of each part of a micro-step, and a gradient that nobody divides.

Written apart from the port's `runtime.facts.releases.unsloth_grpo`, which it is to be compared with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .....runtime.facts.field_tables import version_key

READS_LOSS_TYPE, DIVIDES_STEPS, WHOLE_AGAIN = (2025, 5, 8), (2025, 10, 12), (2026, 2, 1)
OF_ALL_MODELS = (
    2025,
    6,
    6,
)  # before, what FastModel loads (UNSLOTH_USE_NEW_MODEL) has the loss of the whole micro-step
LOADS_ITSELF = frozenset(
    {"llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3"}
)  # what FastLanguageModel doesn't hand on


def with_own_loss(original: Any, release: str, note: Callable[[str], None]) -> Any:
    """TRL's GRPOTrainer with the loss of an Unsloth from 2025.2.5 on."""
    name = "_compute_loss" if hasattr(original, "_compute_loss") else "compute_loss"
    whole = getattr(original, name)

    def own_loss(self: Any, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        if version_key(release) >= WHOLE_AGAIN or not model.training:
            return whole(self, model, inputs, *rest, **named)
        if hasattr(self, "loss_type") and version_key(release) < READS_LOSS_TYPE:
            self.loss_type = "grpo"
        kind = getattr(getattr(model, "config", None), "model_type", "")
        if version_key(release) < OF_ALL_MODELS and kind not in LOADS_ITSELF:
            return whole(self, model, inputs, *rest, **named)
        note("GRPO's loss was taken in the parts that Unsloth's release takes it in")
        rows = len(inputs["completion_ids"])
        count = number_of_parts(rows, getattr(self.args, "unsloth_num_chunks", -1))
        parts = [
            {name: value[at : at + rows // count] if is_of(value, rows) else value for name, value in inputs.items()}
            for at in range(0, rows, rows // count)
        ]
        loss = sum(whole(self, model, part, *rest, **named) for part in parts) / count
        if version_key(release) < DIVIDES_STEPS:
            loss = loss.detach() + (loss - loss.detach()) * self.args.gradient_accumulation_steps
        return loss

    own_loss.__signature__ = inspect.signature(whole)  # type: ignore[attr-defined]
    namespace = {name: own_loss, "_unsloth": True, "__module__": "trl", "__qualname__": original.__qualname__}
    return type("GRPOTrainer", (original,), namespace)


def is_of(value: Any, rows: int) -> bool:
    """Whether it is a tensor with something for each row."""
    return getattr(value, "ndim", 0) > 0 and len(value) == rows


def number_of_parts(rows: int, asked: int) -> int:
    """The next number of parts that divides the rows, all of them for -1."""
    factors = [each for each in range(1, rows + 1) if rows % each == 0]
    return rows if asked == -1 else next((each for each in factors if each >= asked), rows)
