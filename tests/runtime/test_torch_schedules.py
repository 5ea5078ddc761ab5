"""torch's own schedules, step by step beside torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from porter.runtime.training.schedules import hf_schedule

torch = pytest.importorskip("torch")


def wave(count: int) -> float:
    return count / 5 if count < 5 else 0.5 * (1 + math.cos(math.pi * (count - 5) / 20))


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("LambdaLR", {"lr_lambda": wave}),
        ("CosineAnnealingLR", {"T_max": 10}),
        ("CosineAnnealingLR", {"T_max": 10, "eta_min": 1e-5}),
        ("CosineAnnealingWarmRestarts", {"T_0": 4, "T_mult": 2, "eta_min": 1e-6}),
        ("LinearLR", {}),
        ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 12}),
        ("StepLR", {"step_size": 4}),
        ("MultiStepLR", {"milestones": [3, 9], "gamma": 0.5}),
        ("ExponentialLR", {"gamma": 0.9}),
    ],
)
def test_as_torch_does(name: str, kwargs: dict[str, Any], every: int) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=3e-4)
    scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **kwargs)
    rates = []
    for step in range(30):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if (step + 1) % every == 0:
            scheduler.step()
    schedule = hf_schedule(name, 3e-4, steps=30, kwargs=kwargs, every=every)
    np.testing.assert_allclose([float(schedule(step)) for step in range(30)], rates, rtol=1e-5, atol=1e-10)


def test_a_list_of_functions_is_for_groups() -> None:
    with pytest.raises(TypeError, match="groups of parameters"):
        hf_schedule("LambdaLR", 1e-3, steps=3, kwargs={"lr_lambda": [wave]})
