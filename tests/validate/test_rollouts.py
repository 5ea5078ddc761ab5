"""Advantages that are nothing but rounding."""

from __future__ import annotations

import pytest
import torch

from porter.validate.stand_ins.sampled.rollouts import SCORED, TURN, level, sampling_of


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


class Old:
    """As of TRL 0.23 to 0.28: a turn is given rows."""

    def _generate_single_turn(self, prompts: list[object]) -> None: ...

    def _generate_and_score_completions(self, inputs: object) -> None: ...


class New(Old):
    def _generate_single_turn(self, prompt_ids: list[object], images: object = None) -> None:  # type: ignore[override]
        ...


def test_only_a_turn_that_is_given_tokens_tells_what_was_sampled() -> None:
    assert (sampling_of(Old), sampling_of(New), sampling_of(object)) == (SCORED, TURN, None)
