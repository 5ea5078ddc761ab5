"""GRPO's batches against the real TRL: prompts, their order, and a step's micro-batches."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest

from porter.runtime.losses.policy_loss import Shares

from .grpo import QUESTIONS, completions_of, rollouts_of

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("restored")]


def test_prompts_and_order_are_trls(trainers: Any, ours: Any) -> None:
    """RepeatSampler's prompts, over two epochs, and the tokens that `generate` is given."""
    trainer = trainers["grpo"]
    for row, question in enumerate(QUESTIONS):
        assert trainer._tokenize_prompts([question])[0][0] == ours._prompts[row]
    loader, epochs = trainer.get_train_dataloader(), trainer.args.num_train_epochs
    samples = []
    for steps in (-1, 1):
        args = copy(trainer.args)
        args.max_steps = steps
        samples.append(trainer.set_initial_training_values(args, loader)[3])
    assert samples == [len(ours._rows) * epochs, ours.rows * ours.steps / ours.steps_per_epoch]  # ours: of one step
    from trl.trainer.utils import RepeatSampler

    from porter.runtime.batches.order import randperms

    sampler = RepeatSampler(list(range(13)), mini_repeat_count=2, batch_size=3, repeat_count=2, seed=7)
    for epoch in zip(range(2), randperms(13, 7), strict=False):
        theirs = list(sampler)
        order = epoch[1].tolist()
        chunks = [order[start : start + 3] for start in range(0, 12, 3)]
        assert theirs == [row for chunk in chunks for _ in range(2) for row in chunk for _ in range(2)]


def test_a_step_goes_through_the_mesh_in_smaller_micro_batches(ours: Any) -> None:
    """The same rows, and of each the same share of the mean that the trainer takes over its micro-batches."""
    rollouts = rollouts_of(ours, completions_of(3, ours._tokenizer.eos_token_id))

    def counted() -> list[tuple[list[int], float]]:
        ones = dict.fromkeys(Shares._fields, np.ones(len(rollouts)))
        made = list(ours._micro(rollouts, ours._scale([rollouts]), ones))
        assert len(made) == ours._micro_batches
        rows = [(batch, row) for batch in made for row in range(ours.batch_size) if batch["completion_mask"][row].any()]
        return [(batch["input_tokens"][row].tolist(), float(batch["scale"][row]) / len(made)) for batch, row in rows]

    whole = counted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "batch_size", 4)
        patch.setattr(ours, "_micro_batches", 4)
        smaller = counted()
    assert [ids for ids, _ in smaller] == [ids for ids, _ in whole] and len(whole) == 16
    assert [share for _, share in smaller] == pytest.approx([share for _, share in whole], rel=1e-6)


@pytest.mark.parametrize(("made", "share"), [(True, 1.0), (False, 0.25)])
def test_a_step_of_fewer_micro_steps(ours: Any, monkeypatch: pytest.MonkeyPatch, made: bool, share: float) -> None:
    """Transformers before 4.53 divides a step of one micro-step by all four that it might have had."""
    from porter import runtime as rt

    monkeypatch.setattr(ours, "loss", rt.PolicyLoss("grpo", beta=0.1))
    rollouts = rollouts_of(ours, completions_of(3, ours._tokenizer.eos_token_id))
    whole = ours._scale([rollouts])
    monkeypatch.setattr(ours, "_source", (16, 4))
    monkeypatch.setattr(ours, "_divides_by_made", made)
    assert ours._scale([rollouts]) == pytest.approx(whole * share)
