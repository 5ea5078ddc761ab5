"""What GRPO's log lines say of rewards, by release of TRL."""

from __future__ import annotations

import numpy as np
import pytest

from porter.runtime.facts.releases import release
from porter.runtime.rollouts.rollout import _deviation, said_of

REWARDS = np.array([[1.0], [0.0], [3.0], [5.0]])


def said(*, whole_spread: bool, generations: int = 2) -> dict[str, float]:
    completions = [[1], [1, 2], [1], [1]]
    return said_of(
        REWARDS,
        completions,
        [False] * 4,
        names=["right"],
        weights=np.ones(1),
        generations=generations,
        whole_spread=whole_spread,
    )


@pytest.mark.filterwarnings("error")
def test_the_spread_is_of_all_or_of_groups() -> None:
    """`std` of torch and TRL's nanstd: of a sample, so of fewer than two values none."""
    rewards = REWARDS[:, 0]
    assert said(whole_spread=True)["reward_std"] == pytest.approx(rewards.std(ddof=1))
    groups = rewards.reshape(2, 2).std(axis=1, ddof=1)
    assert said(whole_spread=False)["reward_std"] == pytest.approx(groups.mean())
    assert said(whole_spread=True)["rewards/right/std"] == pytest.approx(rewards.std(ddof=1))
    assert np.isnan(said(whole_spread=False, generations=1)["reward_std"])
    assert np.isnan(_deviation(np.array([1.0, np.nan])))


def test_releases_before_0_27_logged_the_mean_of_the_groups() -> None:
    assert not release("0.26.2").logs_whole_spread and release("0.27.0").logs_whole_spread
    assert release("0.26.2").prompts_as_today("grpo") and not release("0.26.2").samples_as_today("grpo")
