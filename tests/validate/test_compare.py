"""Each divergence, made by hand in a synthetic trace, is the first one named and comes with its cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import BF16, FLOAT32, tolerances
from porter.validate.comparing.trace import Row, Step
from porter.validate.comparing.verdict import Verdict

from .synthetic_traces import CONFIG, NAMES, STEPS, A, dataset, first, run, with_config, with_steps


def test_equal_runs() -> None:
    found = checks.compare(run(), run(), FLOAT32)

    assert [check.name for check in found] == [
        checks.CONFIGURATION,
        checks.BATCHES,
        checks.LEARNING_RATE,
        checks.INITIAL_LOSS,
        checks.LOSS,
        checks.GRAD_NORM,
        checks.WEIGHTS,
    ]
    assert {check.status for check in found} == {"equal"}
    assert Verdict("a.py", "b.py", tuple(found)).equal


def test_noise_below_the_tolerances_is_equal() -> None:
    noisy = with_steps(
        run(), lambda number, step: replace(step, loss=step.loss * (1 + 1e-6), grad_norm=step.grad_norm * (1 + 1e-5))
    )
    noisy = replace(noisy, final={name: array + np.float32(1e-6) for name, array in noisy.final.items()})

    assert {check.status for check in checks.compare(run(), noisy, FLOAT32)} == {"equal"}


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"max_grad_norm": None}, "clipping was dropped"),
        ({"weight_decay": 1e-4}, "Optax's default"),
        ({"lora_scaling": [4.0]}, "2 times the source's"),
        ({"steps": STEPS + 1}, "schedule's length"),
        ({"beta2": 0.95}, "not carried over"),
        ({"optimizer": "sgd"}, "not carried over"),
    ],
)
def test_another_setting(settings: dict[str, Any], cause: str) -> None:
    check = first(run(), with_config(run(), **settings))

    assert check.name == checks.CONFIGURATION
    assert cause in check.cause


def test_adam_without_decay_is_adamw_without_decay() -> None:
    source = with_config(run(), weight_decay=0.0)

    assert checks.check_configuration(source, with_config(source, optimizer="adam")).status == "equal"
    assert checks.check_configuration(run(), with_config(run(), optimizer="adam")).status == "differs"


def test_a_lora_target_that_is_missing_in_one_layer() -> None:
    tensors = {name: shape for name, shape in CONFIG["tensors"].items() if name != A.format(1, "k_proj")}
    check = first(run(), with_config(run(), tensors=tensors))

    assert check.name == checks.CONFIGURATION
    assert "lacks k_proj in layers 1" in check.cause


def test_another_rank() -> None:
    check = first(run(), with_config(run(), tensors={name: [8, 8] for name in NAMES}))

    assert check.cause == "the LoRA rank"


def test_a_port_without_lora() -> None:
    assert "never applied LoRA" in first(run(), with_config(run(), tensors={})).cause


def test_a_mask_on_every_token() -> None:
    rows = [Row.of(row.tokens, row.tokens) for row in dataset()]
    check = first(run(), run(rows))

    assert (check.name, check.step) == (checks.BATCHES, 1)
    assert "every token" in check.cause


def test_a_mask_that_differs_in_one_token() -> None:
    def unmask(number: int, step: Step) -> Step:
        if number != 5:
            return step
        labels = step.rows[2].labels.copy()
        labels[-1] = -100
        return replace(step, rows=(*step.rows[:2], Row(step.rows[2].tokens, labels), step.rows[3]))

    check = first(run(), with_steps(run(), unmask))

    assert (check.name, check.step) == (checks.BATCHES, 6)
    assert "the loss mask" in check.cause


def test_data_in_its_own_order() -> None:
    check = first(run(), run(order=list(range(40))))

    assert check.name == checks.BATCHES
    assert "not shuffled" in check.cause


def test_another_seed() -> None:
    check = first(run(), run(order=list(np.random.default_rng(9).permutation(40))))

    assert "shuffling or its seed" in check.cause


def test_rows_of_a_step_in_another_order() -> None:
    check = first(run(), with_steps(run(), lambda number, step: replace(step, rows=step.rows[::-1])))

    assert check.cause == "the order of rows within a step"


def test_length_buckets_may_deal_the_rows_of_a_step_in_another_order() -> None:
    port = with_steps(run(), lambda number, step: replace(step, rows=step.rows[::-1]))
    bucketed = replace(port, config={**port.config, "buckets": [128]})
    assert all(check.status != "differs" for check in checks.compare(run(), bucketed, FLOAT32))
    missing = with_steps(bucketed, lambda number, step: replace(step, rows=(*step.rows[:-1], step.rows[0])))
    assert first(run(), missing).name == checks.BATCHES


def test_other_tokens() -> None:
    rows = [Row.of(row.tokens + 1, row.labels) for row in dataset()]

    assert "tokenisation" in first(run(), run(rows)).cause


def test_truncated_rows() -> None:
    rows = [Row.of(row.tokens[:10], row.labels[:10]) for row in dataset()]

    assert "truncation" in first(run(), run(rows)).cause


def test_another_batch_size() -> None:
    check = first(run(), with_steps(run(), lambda number, step: replace(step, rows=step.rows[:3])))

    assert "rows per step" in check.cause


def test_a_port_that_stops_early() -> None:
    check = first(run(), run().first(9))

    assert (check.name, check.step) == (checks.BATCHES, 10)


@pytest.mark.parametrize(
    ("rates", "cause"),
    [
        (lambda rate: [*rate[1:], 0.0], "off by one step: the port is one ahead"),
        (lambda rate: [rate[0], *rate[:-1]], "off by one step: the port is one behind"),
        (lambda rate: [2 * each for each in rate], "2 times the source's"),
        (lambda rate: [rate[0]] * len(rate), "constant"),
        (lambda rate: [1e-3 * (1 - (step / STEPS) ** 2) for step in range(STEPS)], "kind or its arguments"),
    ],
)
def test_another_schedule(rates: Callable[[list[float]], list[float]], cause: str) -> None:
    wrong = rates([step.learning_rate or 0.0 for step in run().steps])
    port = with_steps(run(), lambda number, step: replace(step, learning_rate=wrong[number]))
    check = first(run(), replace(port, schedule=tuple(wrong)))

    assert check.name == checks.LEARNING_RATE
    assert cause in check.cause


def test_a_schedule_that_parts_after_the_steps_that_ran() -> None:
    schedule = [*run().schedule, 1e-4, 1e-4]
    port = replace(run(), schedule=(*run().schedule, 1e-4, 2e-4))

    check = first(replace(run(), schedule=tuple(schedule)), port)

    assert (check.name, check.step) == (checks.LEARNING_RATE, STEPS + 2)


def test_rates_of_a_long_warm_up_are_measured_by_the_schedules_highest() -> None:
    """A loop shows no schedule: optax rounds the first rates of a warm-up by a share of its highest."""

    def rates(slip: float, schedule: tuple[float, ...]) -> Any:
        own = with_steps(run(), lambda number, step: replace(step, learning_rate=number * 4e-7 + slip))
        return replace(own, schedule=schedule)

    port = rates(1.2e-11, (*(number * 4e-7 for number in range(500)), 2e-4))
    assert checks.check_learning_rate(rates(0, ()), port, FLOAT32).status == "equal"
    assert checks.check_learning_rate(rates(0, ()), rates(1e-9, port.schedule), FLOAT32).status == "differs"


@pytest.mark.parametrize(("shows", "where"), [(0, checks.INITIAL_LOSS), (1, checks.LOSS)])
def test_a_mean_of_micro_batch_means(shows: int, where: str) -> None:
    """Micro-batches of step 1 may have as many tokens: then it shows in step 2."""

    def averaged(number: int, step: Step) -> Step:
        if number < shows:
            return step
        assert step.row_loss is not None
        halves = [sum(step.row_loss[at : at + 2]) / sum(row.trained for row in step.rows[at : at + 2]) for at in (0, 2)]
        return replace(step, loss=sum(halves) / 2)

    check = first(run(), with_steps(run(), averaged))

    assert check.name == where
    assert "mean of micro-batch means" in check.cause


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda loss: loss * 2, "number of micro-batches"),
        (lambda loss: loss * 57, "summed"),
        (lambda loss: float("nan"), "NaN"),
        (lambda loss: loss * 1.001, "computes something else"),
    ],
)
def test_another_first_loss(change: Callable[[float], float], cause: str) -> None:
    port = with_steps(run(), lambda number, step: replace(step, loss=change(step.loss or 0.0)))
    check = first(run(), port)

    assert check.name == checks.INITIAL_LOSS
    assert cause in check.cause


def test_losses_that_drift_apart() -> None:
    port = with_steps(run(), lambda number, step: replace(step, loss=step.loss * (1 + 4e-6 * number)))
    check = first(run(), port)

    assert (check.name, check.step) == (checks.LOSS, 4)
    assert "slowly" in check.cause


def test_another_gradient_norm() -> None:
    port = with_steps(run(), lambda number, step: replace(step, grad_norm=step.grad_norm * 1.01))
    check = first(run(), port)

    assert (check.name, check.step) == (checks.GRAD_NORM, 1)
    assert "the first gradient" in check.cause


def test_one_tensor_that_ends_elsewhere() -> None:
    final = dict(run().final)
    final[NAMES[0]] = final[NAMES[0]] + np.float32(1e-3)
    check = first(run(), replace(run(), final=final))

    assert check.name == checks.WEIGHTS
    assert NAMES[0] in check.detail


def test_bf16_has_wider_tolerances() -> None:
    assert tolerances("bf16") is BF16
    assert all(getattr(BF16, name) >= getattr(FLOAT32, name) for name in FLOAT32.__dataclass_fields__)


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"decayed": [320, 320]}, "the decay mask"),
        ({"steps": STEPS - 1}, "schedule's length"),
        ({"weights_dtype": "checkpoint"}, "transformers before 5 loads float32"),
    ],
)
def test_what_ports_of_old_scripts_get_wrong(settings: dict[str, Any], cause: str) -> None:
    source = with_config(run(), decayed=[256, 320], weights_dtype="float32")
    check = first(source, with_config(source, **settings))

    assert check.name == checks.CONFIGURATION
    assert cause in check.cause
