"""Each divergence, made by hand in a synthetic trace, is the first one named and comes with its cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from porter.validate.comparing import compare as checks
from porter.validate.comparing.preferences import stored_metrics
from porter.validate.comparing.tolerances import BF16, FLOAT32, tolerances
from porter.validate.comparing.trace import Row, Step, Trace
from porter.validate.comparing.verdict import Check, Verdict
from porter.validate.run import check_trains
from porter.validate.running.processes import RunFailed

STEPS = 12
A = "base_model.model.model.layers.{}.self_attn.{}.lora_A.weight"
NAMES = [A.format(layer, name) for layer in (0, 1) for name in ("q_proj", "k_proj")]
CONFIG = {
    "optimizer": "adamw",
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "steps": STEPS,
    "lora_scaling": [2.0],
    "tensors": {name: [4, 8] for name in NAMES},
}


def dataset() -> list[Row]:
    """Forty rows; the first half of each is a prompt."""
    draw = np.random.default_rng(0)
    rows = []
    for length in draw.integers(12, 30, 40):
        tokens = draw.integers(3, 500, length)
        labels = np.where(np.arange(length) < length // 2, -100, tokens)
        rows.append(Row.of(tokens, labels))
    return rows


def run(rows: list[Row] | None = None, order: list[int] | None = None) -> Trace:
    """A trace of twelve steps of four rows, two micro-batches each."""
    rows = dataset() if rows is None else rows
    order = list(np.random.default_rng(1).permutation(len(rows))) if order is None else order
    draw = np.random.default_rng(2)
    rates = [1e-3 * (1 - step / STEPS) for step in range(STEPS)]
    steps = []
    for number in range(STEPS):
        picked = tuple(rows[order[(4 * number + place) % len(order)]] for place in range(4))
        row_loss = tuple(float(row.trained * draw.uniform(4, 8)) for row in picked)
        loss = sum(row_loss) / sum(row.trained for row in picked)
        steps.append(Step(picked, (2, 2), rates[number], loss, 1.0 + number / 10, row_loss))
    initial = {name: draw.normal(size=(4, 8)).astype(np.float32) for name in NAMES}
    return Trace(
        config=CONFIG,
        steps=tuple(steps),
        schedule=tuple(rates),
        initial=initial,
        final={name: array + np.float32(0.1) for name, array in initial.items()},
        dataset=tuple(row.mark for row in rows),
    )


def with_config(trace: Trace, **settings: Any) -> Trace:
    return replace(trace, config={**trace.config, **settings})


def with_steps(trace: Trace, change: Callable[[int, Step], Step]) -> Trace:
    return replace(trace, steps=tuple(change(number, step) for number, step in enumerate(trace.steps)))


def first(source: Trace, port: Trace) -> Check:
    return next(check for check in checks.compare(source, port, FLOAT32) if check.status == "differs")


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


def test_a_mean_of_micro_batch_means() -> None:
    def averaged(number: int, step: Step) -> Step:
        assert step.row_loss is not None
        halves = [sum(step.row_loss[at : at + 2]) / sum(row.trained for row in step.rows[at : at + 2]) for at in (0, 2)]
        return replace(step, loss=sum(halves) / 2)

    check = first(run(), with_steps(run(), averaged))

    assert check.name == checks.INITIAL_LOSS
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


def test_a_nan_in_the_middle_is_no_equality() -> None:
    port = with_steps(run(), lambda number, step: replace(step, loss=float("nan")) if number == 7 else step)

    assert (first(run(), port).name, first(run(), port).step) == (checks.LOSS, 8)


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


def test_weights_that_the_port_never_wrote() -> None:
    final = {name: run().final[name] for name in NAMES[1:]}

    assert "were not compared" in first(run(), replace(run(), final=final)).cause


@pytest.mark.parametrize("side", ["source", "port", "both"])
def test_an_empty_comparison_fails(side: str) -> None:
    empty = Trace(config=CONFIG)
    source, port = (empty if side in (name, "both") else run() for name in ("source", "port"))
    found = tuple(checks.compare(source, port, FLOAT32))

    assert not Verdict("a.py", "b.py", found).equal
    assert next(check for check in found if check.status == "differs").name == checks.BATCHES


def test_batches_without_a_trained_token_fail() -> None:
    def masked(number: int, step: Step) -> Step:
        return replace(step, rows=tuple(Row(row.tokens, np.full_like(row.labels, -100)) for row in step.rows))

    empty = with_steps(run(), masked)

    assert (first(empty, empty).name, first(empty, empty).cause) == (checks.BATCHES, "nothing to compare")


def test_training_that_changes_nothing_fails() -> None:
    still = replace(run(), final=run().initial)

    assert first(still, still).name == first(still, run()).name == first(run(), still).name == checks.WEIGHTS


def test_weights_without_a_gradient_are_not_compared() -> None:
    flat = with_steps(replace(run(), final=run().initial), lambda number, step: replace(step, grad_norm=0.0))

    both = next(check for check in checks.compare(flat, flat, FLOAT32) if check.name == checks.WEIGHTS)
    assert (both.status, "no gradient" in both.detail) == ("skipped", True)


@pytest.mark.parametrize(("norm", "equal"), [(3e-9, True), (4e-7, True), (1e-5, False)])
def test_what_rounding_leaves_beside_no_gradient_is_none(norm: float, equal: bool) -> None:
    flat = with_steps(replace(run(), final=run().initial), lambda number, step: replace(step, grad_norm=0.0))
    port = with_steps(run(), lambda number, step: replace(step, grad_norm=norm))
    checked = {check.name: check.status for check in checks.compare(flat, port, FLOAT32)}
    assert (checked[checks.GRAD_NORM] == "equal") == equal == (checked[checks.WEIGHTS] == "skipped")


def test_no_check_at_all_is_not_equal() -> None:
    assert not Verdict("a.py", "b.py", ()).equal
    assert not Verdict("a.py", "b.py", (Check(checks.GRAD_NORM, "equal", ""),)).equal


def test_other_meshes() -> None:
    drifting = with_steps(run(), lambda number, step: replace(step, loss=step.loss * (1 + 1e-3 * (number == 3))))

    equal, differs, empty = checks.check_devices(
        run(), [("1 device", run().first(8)), ("4 devices", drifting), ("2 devices", Trace())], FLOAT32
    )

    assert equal.status == "equal"
    assert (differs.status, differs.step) == ("differs", 4)
    assert empty.status == "differs"
    # Losses of weights that just sampled are rounding errors around 0, on every mesh others.
    near_zero = with_steps(run(), lambda number, step: replace(step, loss=1e-8 * number))
    elsewhere = [("4 devices", with_steps(run(), lambda number, step: replace(step, loss=-1e-8)))]
    assert checks.check_devices(near_zero, elsewhere, FLOAT32)[0].status == "differs"
    assert checks.check_devices(near_zero, elsewhere, FLOAT32, floor=1.0)[0].status == "equal"


def test_trainers_that_sample_tell_no_metrics_of_pairs() -> None:
    stored = {"train": {"kl": [0.5]}}
    assert stored_metrics(SimpleNamespace(_metrics=stored)) == {"kl": [0.5]}
    assert stored_metrics(SimpleNamespace(_metrics=stored, reward_funcs=[])) == {}


def test_evaluation_losses() -> None:
    source = replace(run(), evaluations=((4, 5.0), (8, 4.5)))
    port = replace(run(), evaluations=((0, 9.0), (4, 5.0), (8, 4.6)))

    assert checks.check_evaluation(run(), port, FLOAT32) == []
    [check] = checks.check_evaluation(source, port, FLOAT32)
    assert (check.status, check.step) == ("differs", 8)
    [elsewhere] = checks.check_evaluation(source, replace(run(), evaluations=((0, 9.0),)), FLOAT32)
    assert (elsewhere.status, elsewhere.step) == ("differs", 4)
    assert "no evaluation set" in elsewhere.cause
    by_hand = replace(source, config={**source.config, "loop": True})  # of a loop whose port has a TODO for them
    assert [each.status for each in checks.check_evaluation(by_hand, run(), FLOAT32)] == ["skipped"]
    [before] = checks.check_evaluation(replace(run(), evaluations=((0, 9.0),)), run(), FLOAT32)
    assert before.status == "skipped"


def test_metrics_of_evaluations() -> None:
    source = replace(run(), measured={4: {"eval_f1": 0.5, "eval_runtime": 1.0}, 8: {"eval_f1": 0.25}})
    port = replace(run(), measured={0: {"eval_f1": 0.1}, 4: {"eval_f1": 0.5}, 8: {"eval_f1": 0.25}})

    assert checks.check_measured(source, run(), FLOAT32) == []
    [equal] = checks.check_measured(source, port, FLOAT32)
    assert (equal.status, equal.measured) == ("equal", 0.0) and equal.detail.startswith("2 evaluations")
    wrong = replace(port, measured={4: {"eval_f1": 0.5}, 8: {"eval_f1": 0.26}})
    [check] = checks.check_measured(source, wrong, FLOAT32)
    assert (check.status, check.step) == ("differs", 8) and "eval_f1 0.2500000 in the source" in check.detail
    [missing] = checks.check_measured(source, replace(port, measured={4: {"eval_exact": 1.0}}), FLOAT32)
    assert missing.status == "differs"


def test_a_gradient_norm_that_only_the_source_shows() -> None:
    blind = with_steps(run(), lambda number, step: replace(step, grad_norm=None))

    assert first(run(), blind).name == checks.GRAD_NORM
    assert checks.check_grad_norm(blind, run(), FLOAT32).status == "skipped"  # max_grad_norm=0 in the source


def test_bf16_has_wider_tolerances() -> None:
    assert tolerances("bf16") is BF16
    assert all(getattr(BF16, name) >= getattr(FLOAT32, name) for name in FLOAT32.__dataclass_fields__)


def test_what_an_old_release_does_not_tell_is_skipped() -> None:
    blind = with_steps(run(), lambda number, step: replace(step, learning_rate=None, grad_norm=None))

    assert checks.check_learning_rate(blind, run(), FLOAT32).status == "equal", "its schedule tells"
    assert checks.check_learning_rate(replace(blind, schedule=()), run(), FLOAT32).status == "skipped"
    assert checks.check_learning_rate(run(), replace(blind, schedule=()), FLOAT32).status == "differs"
    assert checks.check_weights(blind, run(), FLOAT32).status == "equal"
    bare = replace(blind, schedule=(), config={}, gradients={}, final={}, initial={})
    assert checks.compare(bare, run(), FLOAT32), "never ends in an error"


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


def test_what_the_run_leaves_behind_comes_after_training() -> None:
    saved = {"kind": "weights", "path": "out", "items": ["adapter"], "when": "after", "line": 9}
    source, port = with_config(run(), events=[saved]), with_config(run(), events=[])
    found = checks.compare(source, port, FLOAT32)

    assert (found[-1].name, found[-1].status) == (checks.LEFT, "differs")
    assert not Verdict("a.py", "b.py", tuple(found)).equal
    assert {check.status for check in found[:-1]} == {"equal"}


def test_a_divergence_alone_is_measured_against_the_answers_by_chance() -> None:
    """KTO logs no log-probabilities where all its rows of a step are of one kind."""
    source = with_steps(run(), lambda number, step: replace(step, metrics={"kl": 8e-4}))
    longest = max(row.trained for step in source.steps for row in step.rows)
    digit = 6.0 * longest / 50 * FLOAT32.metrics
    for off, status in ((0.5 * digit, "equal"), (2 * digit, "differs")):
        port = with_steps(source, lambda number, step, off=off: replace(step, metrics={"kl": 8e-4 + off}))  # type: ignore[misc]
        [check] = checks.check_metrics(source, port, FLOAT32)
        assert check.status == status


def test_a_source_that_trains_no_token_gives_no_verdict() -> None:
    trace = run()
    check_trains(trace)
    check_trains(Trace())  # that it never started is said elsewhere
    untrained = [Row.of(row.tokens, np.full_like(row.labels, -100)) for row in dataset()]
    steps = tuple(replace(step, rows=tuple(untrained[:4])) for step in trace.steps)
    with pytest.raises(RunFailed, match="the source trained no token of its rows"):
        check_trains(replace(trace, steps=steps))
