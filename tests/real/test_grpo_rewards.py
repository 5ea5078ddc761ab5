"""Rewards and advantages of GRPO and RLOO, against the real TRL on the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from porter.runtime.rollouts.rewards import Rewards, TrainerState, group_advantages, leave_one_out_advantages

from .grpo import GENERATIONS, QUESTIONS, WEIGHTS, completions_of, rollouts_of, scored

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("restored")]


def test_rewards_and_advantages_are_trls(trainers: Any, ours: Any) -> None:
    trainer = trainers["grpo"]
    completions = completions_of(0, trainer._tokenizer.eos_token_id)
    theirs = scored(trainer, completions)["advantages"].numpy()
    got = np.array([rollout.advantage for rollout in rollouts_of(ours, completions)])
    assert np.abs(theirs).max() > 0.5 and np.allclose(got, theirs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_what_is_logged_of_completions_is_trls(trainers: Any, ours: Any, kind: str) -> None:
    """But for RLOO's divergence, whose mean is another test's."""
    trainer = trainers[kind]
    trainer._metrics["train"].clear()
    fed, completions = trainer.state.num_input_tokens_seen, completions_of(1, trainer._tokenizer.eos_token_id)
    scored(trainer, completions)
    ours.logged.begin()
    rollouts_of(ours, completions)
    ours.logged.begin()
    _, said = ours._generate(list(range(len(QUESTIONS))), 0)
    theirs = {name: values[-1] for name, values in trainer._metrics["train"].items() if name != "kl"}
    theirs["num_tokens"] -= fed
    assert said == pytest.approx(theirs, rel=1e-5, abs=1e-6)


SCALES = [
    ("group", "sum_then_normalize"),
    ("batch", "sum_then_normalize"),
    ("none", "sum_then_normalize"),
    ("group", "normalize_then_sum"),
]


@pytest.mark.parametrize(("scale", "aggregation"), SCALES)
def test_every_way_to_scale_rewards(trainers: Any, scale: str, aggregation: str) -> None:
    trainer = trainers["grpo"]
    rng = np.random.RandomState(1)
    rewards = rng.rand(16, 3).astype(np.float32)
    rewards[rng.rand(16, 3) < 0.3] = np.nan
    rewards[5] = np.nan  # judged by none
    rewards[8:12] = 0.25  # no difference within a prompt
    theirs = with_rewards(trainer, rewards, scale_rewards=scale, multi_objective_aggregation=aggregation)
    got = group_advantages(rewards, np.array(WEIGHTS), GENERATIONS, scale=scale, aggregation=aggregation)
    assert np.allclose(got, theirs, rtol=1e-5, atol=1e-6)
    wrong = group_advantages(rewards, np.array(WEIGHTS), GENERATIONS, scale="none" if scale != "none" else "group")
    assert not np.allclose(wrong, theirs, rtol=1e-2, atol=1e-3)  # the wrong scale is seen


def with_rewards(trainer: Any, rewards: np.ndarray, **settings: Any) -> np.ndarray:
    """TRL's advantages of given rewards (rows, functions)."""
    import torch

    kept = {name: getattr(trainer, name) for name in settings}
    calculate = trainer._calculate_rewards
    for name, value in settings.items():
        setattr(trainer, name, value)
    trainer._calculate_rewards = lambda *args: torch.tensor(rewards)
    try:
        return scored(trainer, completions_of(2, trainer._tokenizer.eos_token_id))["advantages"].numpy()
    finally:
        trainer._calculate_rewards = calculate
        for name, value in kept.items():
            setattr(trainer, name, value)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("clip_range", [None, (0.2, 0.6)])
def test_rloo_advantages_are_trls(trainers: Any, normalize: bool, clip_range: Any) -> None:
    rng = np.random.RandomState(3)
    rewards = rng.rand(16, 3).astype(np.float32)
    rewards[4] = np.nan
    beta = trainers["rloo"].beta
    settings = {"normalize_advantages": normalize, "reward_clip_range": clip_range, "beta": 0.0}
    theirs = with_rewards(trainers["rloo"], rewards, **settings)
    got = leave_one_out_advantages(rewards, np.array(WEIGHTS), GENERATIONS, clip_range=clip_range, normalize=normalize)
    assert trainers["rloo"].beta == beta and np.allclose(got, theirs, rtol=1e-5, atol=1e-6)


def test_reward_functions_get_what_trl_gives_them(trainers: Any) -> None:
    seen: list[dict[str, Any]] = []

    def spy(**given: Any) -> list[float]:
        seen.append(given)
        return [0.0] * len(given["prompts"])

    trainer = trainers["grpo"]
    prompts = [[{"role": "user", "content": text}] for text in QUESTIONS[:2]]
    completions = [[{"role": "assistant", "content": "yes"}]] * 2
    inputs = [{"prompt": prompt, "answer": "a", "level": 3} for prompt in prompts]
    kept = trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes
    trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes = [spy], ["spy"], [None]
    trainer._calculate_rewards(inputs, prompts, completions, [[5], [6]])
    trainer.reward_funcs, trainer.reward_func_names, trainer.reward_processing_classes = kept
    columns = {"answer": ["a", "a"], "level": [3, 3]}
    Rewards([spy], None, ["answer", "level"])(prompts, completions, [[5], [6]], columns, TrainerState())
    theirs, got = seen
    assert set(got) == set(theirs)
    plain = set(got) - {"trainer_state", "log_extra", "log_metric"}
    assert {name: got[name] for name in plain} == {name: theirs[name] for name in plain}
    assert got["trainer_state"].global_step == theirs["trainer_state"].global_step == 0
