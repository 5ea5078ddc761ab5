"""Advantages that are nothing but rounding."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from porter.validate.stand_ins.sampled.rollouts import (
    SCORED,
    TURN,
    all_but_equal,
    in_doubles,
    level,
    levelled,
    sampling_of,
)

from . import forked


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1.2e-3, 1.2e-3, 0.7, -0.7], [0.0, 0.0, 0.7, -0.7]),
        ([0.0, 0.0, -1e-7, -1e-7], [0.0] * 4),
        ([1e-7, -1e-7, 0.5, -0.5], [1e-7, -1e-7, 0.5, -0.5]),
        ([0.0, 0.0, 0.5, -0.5], [0.0, 0.0, 0.5, -0.5]),
    ],
)
def test_a_group_of_one_number_has_no_advantage(before: list[float], after: list[float]) -> None:
    advantages = torch.tensor(before)
    assert level(advantages, 2) == (before != after)
    assert advantages.tolist() == pytest.approx(after)


def test_what_is_no_group_stays() -> None:
    assert not level(None, 2)
    for rows, generations in ((torch.ones(3), 2), (torch.ones(4), 1), (torch.ones(2, 2), 2)):
        assert not level(rows, generations) and bool((rows == 1).all())


@pytest.mark.parametrize(
    ("rewards", "near"),
    [
        ([[0.1, 0.5008808], [0.1, 0.5008857]], True),
        ([[0.0], [1.0]], False),
        ([[1.0], [1.0]], False),  # which `level` takes care of
        ([[1e-3], [1.1e-3]], False),
    ],
)
def test_rewards_whose_last_bit_shows_in_their_advantages(rewards: list[list[float]], near: bool) -> None:
    assert all_but_equal(torch.tensor(rewards, dtype=torch.float64), 2) is near
    assert not all_but_equal(None, 2)


def test_the_sources_rewards_are_added_up_in_float64_and_its_advantages_are_float32() -> None:
    latest: list[torch.Tensor | None] = [None]
    gather, said = in_doubles(lambda tensor: tensor, latest), []

    def score(trainer: object, rewards: torch.Tensor) -> dict[str, torch.Tensor]:
        total = gather(rewards).sum(dim=1)
        return {"advantages": (total - total.mean()) / (total.std() + 1e-4)}

    rewards = torch.tensor([[0.2, 3.5008808], [0.7, 3.0008857]])
    trainer = SimpleNamespace(model=SimpleNamespace(training=True), num_generations=2)
    found = levelled(score, latest, lambda: said.append("rounded"))(trainer, rewards)["advantages"]
    exact = rewards.double().sum(dim=1)
    assert found.dtype == torch.float32 and said == ["rounded"]
    assert found.tolist() == pytest.approx(((exact - exact.mean()) / (exact.std() + 1e-4)).tolist(), abs=1e-7)
    assert gather(torch.ones(3)).dtype == torch.float32  # RLOO's kl


WATCHED = """
import torch
from trl.trainer import grpo_trainer, rloo_trainer
from porter.validate.stand_ins.sampled.rollouts import watch_source
watch_source(*[lambda *said: None] * 4)
print([module.gather(torch.ones(2, 2)).dtype for module in (grpo_trainer, rloo_trainer)])
"""


@pytest.mark.real
@pytest.mark.long
def test_trls_trainers_gather_rewards_in_float64(tmp_path: Path) -> None:
    done = forked.run(WATCHED, cwd=tmp_path)
    assert done.stdout.strip() == "[torch.float64, torch.float64]", done.stderr


class Old:
    """As of TRL 0.23 to 0.28: a turn is given rows."""

    def _generate_single_turn(self, prompts: list[object]) -> None: ...

    def _generate_and_score_completions(self, inputs: object) -> None: ...


class New(Old):
    def _generate_single_turn(self, prompt_ids: list[object], images: object = None) -> None:  # type: ignore[override]
        ...


def test_only_a_turn_that_is_given_tokens_tells_what_was_sampled() -> None:
    assert (sampling_of(Old), sampling_of(New), sampling_of(object)) == (SCORED, TURN, None)


FOLDED = """
import sys
from types import SimpleNamespace
from porter.validate.observing.settings import Settings
from porter.validate.torch_side.observe_arguments import patch_arguments
from porter.validate.torch_side.observer_torch import Observer
settings = Settings(work=sys.argv[1], steps=2, dtype="float32", fold=8)
patch_arguments(settings, SimpleNamespace(note=lambda line: None, output=lambda path: sys.argv[1]))
from trl import GRPOConfig
for given in ({}, {"generation_batch_size": 64}):
    args = GRPOConfig("out", per_device_train_batch_size=2, gradient_accumulation_steps=2, num_generations=8, **given)
    Observer.fold(SimpleNamespace(settings=settings), args)
    print(args.per_device_train_batch_size, args.generation_batch_size, args.steps_per_generation, args.world_size)
"""


@pytest.mark.real
def test_a_folded_config_divides_the_completions_of_all_processes(tmp_path: Path) -> None:
    done = forked.run(FOLDED, tmp_path, cwd=tmp_path)
    assert done.stdout.splitlines() == ["16 32 2 1", "16 64 4 1"], done.stderr
