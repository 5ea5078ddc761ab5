"""Unsloth's own loss of GRPO on the torch side: in which parts a release takes it of which model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from porter.validate.torch_side.gpu_libraries.unsloth_parts.grpo import with_own_loss


class Loss(np.ndarray):
    def detach(self) -> Any:
        return self


class Trainer:
    args = SimpleNamespace(gradient_accumulation_steps=1)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self.taken.append(len(inputs["completion_ids"]))
        return np.ones(1).view(Loss)

    def __init__(self) -> None:
        self.taken: list[int] = []


@pytest.mark.parametrize(
    ("release", "kind", "taken"),
    [
        ("2025.6.1", "llama", [1, 1, 1, 1]),
        ("2025.6.1", "gemma3_text", [4]),
        ("2025.6.6", "gemma3_text", [1, 1, 1, 1]),
        ("2026.2.1", "llama", [4]),
    ],
)
def test_before_2025_6_6_a_model_that_unsloth_hands_on_has_the_loss_of_the_whole(
    release: str, kind: str, taken: list[int]
) -> None:
    trainer = with_own_loss(Trainer, release, print)()
    model = SimpleNamespace(training=True, config=SimpleNamespace(model_type=kind))
    assert trainer._compute_loss(model, {"completion_ids": np.zeros((4, 3))}) == 1.0
    assert trainer.taken == taken
