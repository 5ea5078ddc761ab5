"""TRL 0.14's GRPO, whose loss samples: what is written down of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from porter.validate.stand_ins.sampled.rollouts import of_scored, rows_of_torch
from porter.validate.stand_ins.sampled.sampling_losses import rows_of, watch

PROMPTS = torch.tensor([[0, 5], [6, 7]])
MASK = torch.tensor([[0, 1], [1, 1]])
END = 9
WHOLE = torch.tensor([[0, 5, 1, 9], [0, 5, 1, 2], [6, 7, 9, 3], [6, 7, 4, 4]])


def test_prompts_are_repeated_and_completions_end_at_their_first_end_token() -> None:
    found = rows_of(PROMPTS, MASK, WHOLE, END)
    assert of_scored(found) == ([[5], [5], [6, 7], [6, 7]], [[1, 9], [1, 2], [9], [4, 4]])
    assert [row.trained for row in rows_of_torch(found)] == [2, 2, 1, 2]


class Model:
    training = True

    def generate(self, **asked: Any) -> torch.Tensor:
        return WHOLE


def of_trl() -> tuple[ModuleType, Any]:
    """A module like TRL's, and its trainer, whose loss is the sum of float32 rewards."""
    module = ModuleType("grpo_trainer")

    @contextlib.contextmanager
    def unwrap(model: Model, accelerator: Any = None) -> Iterator[Model]:
        yield model

    class Trainer:
        def __init__(self) -> None:
            self.model, self.num_generations = Model(), 2
            self.processing_class = SimpleNamespace(eos_token_id=END)

        def compute_loss(self, model: Model) -> torch.Tensor:
            with module.unwrap_model_for_generation(model) as unwrapped:
                unwrapped.generate(input_ids=PROMPTS, attention_mask=MASK)
            rewards = module.torch.zeros(4, 1)
            rewards[:, 0] = torch.tensor([1.0, 1.0, 1000.001, 1000.002])
            return rewards.sum()

    module.torch, module.unwrap_model_for_generation = torch, unwrap  # type: ignore[attr-defined]
    return module, Trainer


def test_what_a_loss_samples_and_scores_is_told() -> None:
    module, trainer = of_trl()
    told: list[Any] = []
    watch(
        module,
        trainer,
        lambda: told.append("began"),
        lambda rows: told.append(of_scored(rows)[1]),
        lambda rewards, generations: told.append((rewards.dtype, generations)),
    )
    made = trainer()
    loss = made.compute_loss(made.model)
    assert told == ["began", [[1, 9], [1, 2], [9], [4, 4]], (torch.float64, 2)]
    assert loss.dtype == torch.float32 and module.torch is torch
    assert "generate" not in vars(made.model)

    made.model.training = False
    made.compute_loss(made.model)
    assert len(told) == 3
