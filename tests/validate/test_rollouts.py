"""Advantages that are nothing but rounding."""

from __future__ import annotations

import pytest
import torch

from porter.validate.stand_ins.rollouts import level


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1.2e-3, 1.2e-3, 0.7, -0.7], [0.0, 0.0, 0.7, -0.7]),
        ([0.0, 0.0, -1e-7, -1e-7], [0.0] * 4),
        ([1e-7, -1e-7, 0.5, -0.5], [1e-7, -1e-7, 0.5, -0.5]),
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
