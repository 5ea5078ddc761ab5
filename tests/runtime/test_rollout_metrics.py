"""What GRPO's log lines say of rewards, by release of TRL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from porter.runtime.facts.releases import release
from porter.runtime.facts.releases.lines import CLIP_RATIOS
from porter.runtime.losses.policy_loss import PolicyLoss, Shares
from porter.runtime.rollouts.logged import Logged, kl_shares, mean_kl, shares_of
from porter.runtime.rollouts.rollout import Rollout, _deviation, said_of
from porter.runtime.training.own_metrics import _highest, _lowest

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


LENGTHS = {f"completions/{kind}_{of}" for kind in ("mean", "min", "max") for of in ("length", "terminated_length")}
LATER = {"reward", "reward_std", "rewards/right/mean", "rewards/right/std", "completions/clipped_ratio", *LENGTHS}


@pytest.mark.parametrize(
    ("trl", "names", "times"),
    [
        ("0.15.2", {"reward", "reward_std", "rewards/right", "completion_length"}, False),
        ("0.16.0", {"reward", "reward_std", "rewards/right", "completion_length", "num_tokens"}, False),
        ("0.17.0", {*LATER, "num_tokens"}, False),
        ("0.25.1", {*LATER, "num_tokens", "frac_reward_zero_std"}, False),
        ("0.26.0", {*LATER, "num_tokens", "frac_reward_zero_std"}, True),
    ],
)
def test_a_release_logs_under_its_own_names(trl: str, names: set[str], times: bool) -> None:
    logged = log(trl)
    said = logged.of_batch(REWARDS, ROLLOUTS, [False, True, False, False])
    assert (set(said), logged.times_steps) == (names, times)
    assert said.get("completions/max_length", 3) == 3 and said.get("completions/max_terminated_length", 2) == 2


def test_tokens_are_counted_up_and_not_behind_a_run_that_nobody_has_seen() -> None:
    logged, masked = log("0.23.0"), [Rollout([1, 2], [3, 4, 5], 0)]
    for step in (0, 2):
        logged.add(step, logged.of_batch(REWARDS, ROLLOUTS, [False] * 4))
    assert [logged.between(after, after + 1).get("num_tokens") for after in range(3)] == [17, None, 34]
    assert logged.between(0, 3)["num_tokens"] == 34, "the last, not the mean"
    assert logged.of_batch(REWARDS[:1].repeat(2, 0), masked * 2, [True] * 2)["num_tokens"] == 34 + 2 * 2
    logged.begin()
    logged.add(5, logged.of_batch(REWARDS, ROLLOUTS, [False] * 4))
    assert "num_tokens" not in logged.between(0, 6) and "reward" in logged.between(0, 6)


def test_the_divergence_is_the_mean_over_tokens_of_all_or_of_each_process() -> None:
    trained = np.array([rollout.trained for rollout in ROLLOUTS])  # 2 + 3 tokens on one process, 2 + 2 on the other
    kl = trained * np.array([1.0, 1.0, 3.0, 3.0])
    assert mean_kl(kl, ROLLOUTS, 2, of_all=False) == pytest.approx((1 + 3) / 2)
    assert mean_kl(kl, ROLLOUTS, 2, of_all=True) == pytest.approx((5 * 1 + 4 * 3) / 9)
    parts = [ROLLOUTS[:2], ROLLOUTS[2:]]  # two micro-steps
    assert kl @ kl_shares(parts, 1, of_all=True) == pytest.approx((1 + 3) / 2)


ROLLOUTS = [Rollout([1, 2], [3] * length, length) for length in (2, 3, 2, 2)]


def log(trl: str) -> Logged:
    rewards: Any = SimpleNamespace(names=["right"], weights=np.ones(1))
    return Logged(release(trl), rewards, 2, whole_spread=False)


@pytest.mark.parametrize(("ratio", "sign", "side", "extreme"), [(0.5, -1, "low", "min"), (1.5, 1, "high", "max")])
@pytest.mark.parametrize("of_rows", [True, False])
def test_what_is_clipped_is_logged_of_each_micro_step(
    ratio: float, sign: int, side: str, extreme: str, of_rows: bool
) -> None:
    """Two micro-steps of two completions: a half and all of one are clipped; none, and a half. Split into two here."""
    clipped = np.array([[1, 0], [1, 1], [0, 0], [0, 1]])
    old_logps, mask = np.where(clipped, -np.log(ratio), 0.0), np.ones((4, 2))
    loss = PolicyLoss("grpo", logs=CLIP_RATIOS, micro_steps=2, extremes_of_rows=of_rows)
    rollouts = [Rollout([1], [1, 2], 2) for _ in range(4)]
    counted = shares_of([rollouts[:2], rollouts[2:]], 1, 2, of_all=True)
    told = []
    for rows in (slice(0, 3), slice(3, 4)):
        shares = Shares(**{name: each[rows] for name, each in counted.items()})
        given = (np.zeros((4, 2))[rows], mask[rows], np.full(4, float(sign))[rows], shares, old_logps[rows], None)
        told.append(loss.told(*given))  # type: ignore[arg-type]
    means = {name: np.mean([each[name] for each in told]) for name in CLIP_RATIOS if name.endswith("_mean")}
    other = "high" if side == "low" else "low"
    expected = (3 / 4 + 1 / 4) / 2
    assert means == {
        f"clip_ratio/{side}_mean": pytest.approx(expected),
        f"clip_ratio/{other}_mean": 0,
        "clip_ratio/region_mean": pytest.approx(expected),
    }
    of_extreme = [each[f"clip_ratio/{side}_{extreme}"] for each in told]
    if of_rows:
        found = (_lowest if extreme == "min" else _highest)(of_extreme)
        assert found == pytest.approx(np.mean([0.5, 0.0] if extreme == "min" else [1.0, 0.5]))
    else:
        assert np.mean(of_extreme) == pytest.approx(expected)
