"""Rewards: how functions are called and what is refused; advantages where groups are odd."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from porter.runtime.rollouts.rewards import Rewards, TrainerState, group_advantages, leave_one_out_advantages


def call(functions: Any, weights: Any = None, **columns: list[Any]) -> np.ndarray:
    rewards = Rewards(functions, weights, list(columns))
    return rewards(["a", "b"], ["x", "yy"], [[1], [2, 3]], columns, TrainerState(global_step=4))


def test_plain_async_and_none() -> None:
    async def later(completion_ids: Any, **kwargs: Any) -> list[float]:
        return [len(ids) for ids in completion_ids]

    def some(completions: Any, answer: Any, **kwargs: Any) -> list[float | None]:
        return [None if said == "no" else 1.0 for said in answer]

    found = call([some, later], answer=["no", "yes"])
    assert np.array_equal(found, [[np.nan, 1.0], [1.0, 2.0]], equal_nan=True)


def test_what_a_function_is_given() -> None:
    seen: dict[str, Any] = {}

    def spy(prompts: Any, completions: Any, **kwargs: Any) -> list[float]:
        seen.update(kwargs, prompts=prompts)
        kwargs["log_metric"]("share", 0.5)
        return [0.0, 0.0]

    call(spy, answer=["a", "b"])
    assert set(seen) == {"prompts", "completion_ids", "answer", "trainer_state", "log_extra", "log_metric"}
    assert seen["trainer_state"].global_step == 4


def test_a_function_without_rest_gets_what_it_names() -> None:
    def old(prompts: Any, completions: Any, answer: Any) -> list[float]:
        return [float(len(answer))] * 2

    assert call(old, answer=["a", "b"], other=[1, 2]).tolist() == [[2.0], [2.0]]


def _needs_more(completions: Any, tokenizer: Any, **kwargs: Any) -> list[float]:
    return []


def _by_place(completions: Any, /, **kwargs: Any) -> list[float]:
    return []


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda completions: [], "takes no prompts"),
        (_needs_more, "needs 'tokenizer', which is neither a column of the dataset"),
        (_by_place, "takes completions by place only"),
        ("org/reward-model", "is no function. A reward model is a PyTorch model"),
        ([], "reward_funcs is empty"),
    ],
)
def test_functions_that_can_t_be_called(function: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rewards(function, None, ["answer"])


def test_wrong_numbers_are_named() -> None:
    def one(completions: Any, **kwargs: Any) -> list[float]:
        return [1.0]

    with pytest.raises(ValueError, match="one returned 1 rewards for 2 completions"):
        call(functools.partial(one, other=1))
    with pytest.raises(ValueError, match="2 weights for 1 reward functions"):
        call(one, [1.0, 2.0])
    with pytest.raises(ValueError, match="scale_rewards='all' is not known"):
        group_advantages(np.zeros((2, 1)), np.ones(1), 2, scale="all")


def test_equal_rewards_move_nothing() -> None:
    equal = np.full((4, 1), 0.7, np.float32)
    assert not group_advantages(equal, np.ones(1), 2).any()
    for generations in range(2, 17):  # whose mean in float32 isn't the reward itself
        for reward in (0.1, 0.3, 0.7, 1.1):
            rewards = np.full((generations, 1), reward, np.float32)
            assert not group_advantages(rewards, np.ones(1, np.float32), generations).any()
            assert not leave_one_out_advantages(rewards, np.ones(1, np.float32), generations).any()
    assert not leave_one_out_advantages(equal, np.ones(1), 2).any()


def test_groups_are_rows_side_by_side() -> None:
    rewards = np.array([[0.0], [1.0], [5.0], [5.0]], np.float32)
    found = group_advantages(rewards, np.ones(1), 2, scale="none")
    assert found.tolist() == [-0.5, 0.5, 0.0, 0.0]
    assert leave_one_out_advantages(rewards, np.ones(1), 2).tolist() == [-1.0, 1.0, 0.0, 0.0]


def test_the_spread_is_the_groups_or_the_batchs() -> None:
    rewards = np.array([[0.0], [2.0], [0.0], [4.0]], np.float32)
    group = group_advantages(rewards, np.ones(1), 2)
    assert group.tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5] * 2, abs=1e-3)
    batch = group_advantages(rewards, np.ones(1), 2, scale="batch")
    assert batch.tolist() == pytest.approx((np.array([-1, 1, -2, 2]) / np.std(rewards, ddof=1)).tolist(), abs=1e-3)


def test_a_row_that_no_function_judged_stays_out_of_its_group() -> None:
    rewards = np.array([[np.nan], [1.0], [3.0]], np.float32)
    assert group_advantages(rewards, np.ones(1), 3, scale="none").tolist() == [0.0, -1.0, 1.0]
    assert leave_one_out_advantages(rewards, np.ones(1), 3).tolist() == [0.0, -2.0, 2.0]


def test_rloo_clips_rewards_before_the_penalty() -> None:
    rewards, kl = np.array([[-9.0], [5.0]], np.float32), np.array([1.0, 0.0])
    found = leave_one_out_advantages(rewards, np.ones(1), 2, kl=kl, beta=0.5, clip_range=(-1.0, 1.0))
    assert found.tolist() == [-2.5, 2.5]


def test_rewards_that_are_all_but_equal_are_added_up_in_float64() -> None:
    rewards = np.array([[0.2, 0.7, 3.5008808], [0.2, 0.7, 3.5008857], [0.1, 0.8, 3.5008787], [0.8, 0.1, 3.5008847]])
    found = group_advantages(rewards.astype(np.float32), np.ones(3, np.float32), 4)
    exact = rewards.astype(np.float32).astype(np.float64).sum(axis=1)
    expected = (exact - exact.mean()) / (exact.std(ddof=1) + 1e-4)
    assert np.abs(found - expected).max() < 1e-7
    for generations in (2, 3, 6):
        equal = np.array([[0.1, 0.7, 0.3]] * generations, np.float32)
        assert not group_advantages(equal, np.full(3, 0.1, np.float32), generations).any()
        assert not leave_one_out_advantages(equal, np.full(3, 0.1, np.float32), generations).any()
