"""The last step's checkpoint, which transformers saves besides since 4.42 and Tunix always."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("transformers", "strategy", "saved"),
    [("4.41", "steps", []), ("4.41", "epoch", [7]), ("4.42", "steps", [7]), (None, "steps", [7])],
)
def test_the_last_step_is_saved_as_the_release_did(transformers: str | None, strategy: str, saved: list[int]) -> None:
    import orbax.checkpoint as ocp
    from tunix.sft.peft_trainer import PeftTrainer

    from porter.runtime.saving.saving_policy import save_policy

    policy = save_policy(5, transformers, strategy)
    steps: list[int] = []
    trainer = PeftTrainer.__new__(PeftTrainer)
    trainer.config = SimpleNamespace(
        checkpointing_options=ocp.CheckpointManagerOptions(save_decision_policy=policy, max_to_keep=None)
    )
    trainer.checkpoint_manager = SimpleNamespace(
        latest_step=lambda: 5, save=lambda step, *args, **kwargs: steps.append(step)
    )
    trainer._train_steps, trainer.model, trainer.optimizer, trainer._lora_enabled = 7, None, None, False
    trainer._save_last_checkpoint()
    assert steps == saved


def test_arguments_know_their_transformers() -> None:
    from porter.runtime.arguments import TrainingArguments, trl_arguments

    assert trl_arguments("0.8.6", "TrainingArguments")("out").of_transformers == "4.39"
    assert TrainingArguments("out").of_transformers is None
