"""Every schedule of transformers, at every step, against transformers' own; and the optax lines a port prints."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from porter.runtime.training.schedules import hf_schedule, hf_warmup_steps

pytestmark = pytest.mark.real

PEAK, STEPS = 2e-4, 57
CASES: list[tuple[str, float, dict[str, Any] | None]] = [
    ("linear", 0, None),
    ("linear", 10, None),
    ("linear", 0.1, None),
    ("cosine", 10, None),
    ("cosine", 0, {"num_cycles": 1.5}),
    ("cosine_with_restarts", 10, {"num_cycles": 3}),
    ("polynomial", 10, None),
    ("polynomial", 5, {"power": 2.0, "lr_end": 1e-5}),
    ("constant", 10, None),
    ("constant_with_warmup", 10, None),
    ("inverse_sqrt", 10, None),
    ("inverse_sqrt", 0, {"timescale": 20}),
    ("cosine_with_min_lr", 10, {"min_lr": 1e-5}),
    ("cosine_with_min_lr", 10, {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", 10, {"min_lr_rate": 0.1}),
    ("cosine_warmup_with_min_lr", 10, {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 20}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 20, "warmup_type": "cosine", "decay_type": "linear"}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 20, "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 10, {"num_decay_steps": 9, "num_stable_steps": 9, "warmup_type": "1-sqrt"}),
]


def _of_transformers(name: str, warmup: float, kwargs: dict[str, Any] | None) -> list[float]:
    import torch
    from transformers import TrainingArguments, get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    warmup_steps = TrainingArguments(output_dir="unused", warmup_steps=warmup, use_cpu=True).get_warmup_steps(STEPS)
    scheduler = get_scheduler(name, optimizer, warmup_steps, STEPS, scheduler_specific_kwargs=kwargs)
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scheduler steps without its optimizer
        for _ in range(STEPS):
            rates.append(scheduler.get_last_lr()[0])
            scheduler.step()
    return rates


@pytest.mark.parametrize(("name", "warmup", "kwargs"), CASES)
def test_the_rate_of_every_step_is_transformers(name: str, warmup: float, kwargs: dict[str, Any] | None) -> None:
    schedule = hf_schedule(name, PEAK, warmup_steps=warmup, steps=STEPS, kwargs=kwargs)
    ours = jax.jit(jax.vmap(schedule))(jnp.arange(STEPS))
    np.testing.assert_allclose(ours, _of_transformers(name, warmup, kwargs), rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", ["linear", "cosine", "constant_with_warmup"])
def test_a_warmup_of_a_part_of_a_step_is_that_before_4_42(name: str) -> None:
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_scheduler(name, optimizer, 0.03, STEPS)  # what get_warmup_steps gave
    rates = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(STEPS):
            rates.append(scheduler.get_last_lr()[0])
            scheduler.step()
    ours = hf_schedule(name, PEAK, warmup_steps=0.03, steps=STEPS, shares=False)
    np.testing.assert_allclose(jax.vmap(ours)(jnp.arange(STEPS)), rates, rtol=1e-6, atol=0)
    assert rates[0] == 0 and rates[1] > 0


def test_all_names_are_covered() -> None:
    from transformers.trainer_utils import SchedulerType

    metric_driven = {"reduce_lr_on_plateau", "greedy"}
    assert {name for name, _, _ in CASES} == {kind.value for kind in SchedulerType} - metric_driven


def test_a_schedule_one_step_late_is_noticed() -> None:
    schedule = hf_schedule("cosine", PEAK, warmup_steps=10, steps=STEPS)
    late = [float(schedule(step + 1)) for step in range(STEPS)]
    assert not np.allclose(late, _of_transformers("cosine", 10, None), rtol=1e-3)


@pytest.mark.parametrize("warmup", [0, 10, STEPS])
def test_the_optax_lines_of_a_literal_port_agree(warmup: int) -> None:
    cosine = optax.warmup_cosine_decay_schedule(0.0, PEAK, warmup_steps=warmup, decay_steps=max(STEPS, warmup + 1))
    linear = optax.join_schedules(
        [optax.linear_schedule(0.0, PEAK, warmup), optax.linear_schedule(PEAK, 0.0, STEPS - warmup)], [warmup]
    )
    for name, schedule in (("cosine", cosine), ("linear", linear)):
        ours = [float(schedule(step)) for step in range(STEPS)]
        # Traced in float32: exact in units of the peak, not in its own last digits near zero.
        np.testing.assert_allclose(ours, _of_transformers(name, warmup, None), rtol=1e-6, atol=1e-7 * PEAK)


def test_warmup_share_rounds_up() -> None:
    assert hf_warmup_steps(0.1, 57) == 6
    assert hf_warmup_steps(3, 57) == 3
    assert hf_warmup_steps(0, 57) == 0


def test_refusals_name_the_schedule() -> None:
    with pytest.raises(ValueError, match="greedy"):
        hf_schedule("greedy", PEAK, steps=3)
    with pytest.raises(ValueError, match="unknown lr_scheduler_type 'cosin'"):
        hf_schedule("cosin", PEAK, steps=3)
    with pytest.raises(ValueError, match="min_lr"):
        hf_schedule("cosine_with_min_lr", PEAK, steps=3)
    with pytest.raises(TypeError):
        hf_schedule("cosine", PEAK, steps=3, kwargs={"no_such_setting": 1})
