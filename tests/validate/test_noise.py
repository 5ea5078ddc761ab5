"""Tolerances that know how far the weights moved, and what float32 makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from porter.validate.comparing import compare as checks
from porter.validate.comparing.noise import GRADIENT_NOISE, MOST, weight_noise
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Step, Trace

SHAPE = (64, 64)


def trained(rate: float, *, steps: int = 4, gradient: float | np.ndarray = 1e-4, norm: float | None = 1.0) -> Trace:
    """A trace whose weights of about 0.1 move by `rate` a step, as Adam moves them."""
    draw = np.random.default_rng(0)
    initial = draw.normal(scale=0.1, size=SHAPE).astype(np.float32)
    signs = np.sign(draw.normal(size=SHAPE)).astype(np.float32)
    return Trace(
        config={"epsilon": 1e-8},
        steps=tuple(Step(learning_rate=rate, loss=5.0, grad_norm=norm) for _ in range(steps)),
        initial={"a": initial},
        final={"a": initial + np.float32(rate * steps) * signs},
        gradients={"a": np.broadcast_to(np.asarray(gradient, np.float32), SHAPE).copy()},
    )


def rounded(trace: Trace, last_places: float) -> Trace:
    """The same run on another side: every weight off by a random share of `last_places` units in its last place."""
    draw = np.random.default_rng(1)
    final = trace.final["a"]
    off = np.rint(draw.uniform(-last_places, last_places, SHAPE)).astype(np.float32) * np.spacing(np.abs(final))
    return replace(trace, final={"a": final + off})


def test_a_long_warm_up_is_no_difference() -> None:
    source = trained(5e-7)
    found = checks.check_weights(source, rounded(source, 1), FLOAT32)

    assert found.measured is not None and found.measured > FLOAT32.weights, "would have been called different"
    assert found.status == "equal"


def test_a_warm_up_of_thousands_of_steps_moves_weights_by_a_few_last_places() -> None:
    source = trained(3e-8)
    found = checks.check_weights(source, rounded(source, 1), FLOAT32)

    assert found.measured is not None and found.measured > MOST, "would have been called different"
    assert found.status == "equal"
    still = {"a": source.initial["a"]}
    assert checks.check_weights(source, replace(source, final=still), FLOAT32).status == "differs"


def test_a_mistake_in_a_long_warm_up_still_differs() -> None:
    source = trained(5e-7)
    doubled = {"a": source.initial["a"] + 1.1 * (source.final["a"] - source.initial["a"])}

    assert checks.check_weights(source, replace(source, final=doubled), FLOAT32).status == "differs"


def test_weights_that_move_far_have_the_tolerance_of_before() -> None:
    source = trained(1e-3)
    off = {"a": source.final["a"] + 3e-4 * (source.final["a"] - source.initial["a"])}

    assert weight_noise(source).allowed < 0.2 * FLOAT32.weights
    assert checks.check_weights(source, replace(source, final=off), FLOAT32).status == "differs"


def test_gradients_near_epsilon_move_by_a_rate_in_any_direction() -> None:
    noisy = np.full(SHAPE, 1e-3)
    noisy[::2, ::2] = 1e-9  # what is left of terms that cancel: noise of 1e-9 on 1e-9
    quiet, loud = weight_noise(trained(1e-3, gradient=1e-3)), weight_noise(trained(1e-3, gradient=noisy))

    assert quiet.division == pytest.approx(GRADIENT_NOISE, rel=0.01)
    assert loud.division > 1e-2
    assert loud.allowed == MOST


def test_rows_that_no_batch_holds_make_no_noise() -> None:
    rows = np.full(SHAPE, 1e-3)
    rows[10:] = 0.0

    assert weight_noise(trained(1e-3, gradient=rows)).division < 3 * GRADIENT_NOISE


@pytest.mark.parametrize("change", [{"gradients": {}}, {"config": {}}, {"config": {"epsilon": None}}])
def test_what_an_old_release_does_not_tell_is_left_out(change: dict[str, Any]) -> None:
    noise = weight_noise(replace(trained(1e-4), **change))

    assert np.isfinite(noise.allowed)


def test_a_run_that_changes_nothing_has_no_noise() -> None:
    still = trained(1e-3)

    assert weight_noise(replace(still, final=still.initial)).allowed == 0.0
    assert weight_noise(Trace()).allowed == 0.0


def test_steps_whose_rate_is_zero_have_no_weights_to_compare() -> None:
    source = trained(0.0)

    assert checks.check_weights(source, source, FLOAT32).status == "skipped"


def test_norms_near_zero_are_measured_against_the_largest() -> None:
    def norms(*values: float | None) -> Trace:
        return Trace(steps=tuple(Step(grad_norm=value) for value in values))

    assert checks.check_grad_norm(norms(1.0, 0.0), norms(1.0, 1e-7), FLOAT32).status == "equal"
    assert checks.check_grad_norm(norms(1.0, 0.0), norms(1.0, 1e-3), FLOAT32).status == "differs"
    assert checks.check_grad_norm(norms(0.0, 0.0), norms(0.0, 1e-13), FLOAT32).status == "equal"
    assert checks.check_grad_norm(norms(1.0, 0.5), norms(1.0, 0.5001), FLOAT32).status == "differs"
    assert checks.check_grad_norm(norms(None, None), norms(1.0, 0.5), FLOAT32).status == "skipped"


def test_a_loss_that_is_nearly_learnt() -> None:
    def losses(*values: float | None) -> Trace:
        return Trace(steps=tuple(Step(loss=value) for value in values))

    assert checks.check_losses(losses(1e-4), losses(1.005e-4), FLOAT32).status == "equal"
    assert checks.check_losses(losses(1e-4), losses(2e-4), FLOAT32).status == "differs"
    assert checks.check_losses(losses(5.0), losses(5.001), FLOAT32).status == "differs"


def test_a_side_that_shows_no_loss_is_skipped_and_never_equal() -> None:
    blind, seen = (Trace(steps=(Step(loss=value), Step(loss=value))) for value in (None, 5.0))
    for source, port in ((blind, seen), (seen, blind)):
        assert checks.check_initial_loss(source, port, FLOAT32).status == "skipped"
        assert checks.check_losses(source, port, FLOAT32).status == "skipped"


def test_near_ties_of_an_evaluation() -> None:
    source = Trace(config={"near_ties": {"4": 0.02}}, measured={4: {"eval_accuracy": 0.50}, 8: {"eval_accuracy": 0.5}})
    port = Trace(measured={4: {"eval_accuracy": 0.51}})

    assert checks.check_measured(source, port, FLOAT32)[0].status == "equal"
    assert checks.check_measured(source, Trace(measured={8: {"eval_accuracy": 0.51}}), FLOAT32)[0].status == "differs"
    assert checks.check_measured(source, Trace(measured={4: {"eval_accuracy": 0.53}}), FLOAT32)[0].status == "differs"


@pytest.mark.parametrize(
    ("name", "share", "off", "status"),
    [
        ("layer.lora_A.weight", 0.03, 0.05, "equal"),  # a row or two went their own way
        ("layer.lora_A.weight", 0.3, 0.016, "differs"),
        ("layer.lora_A.weight", 0.03, 1.0, "differs"),  # more than float32 makes of anything
        ("layer.mlp.weight", 0.03, 0.05, "differs"),  # a full tensor: rows of the embedding may be a mistake
    ],
)
def test_few_elements_of_an_adapter_may_go_their_own_way(name: str, share: float, off: float, status: str) -> None:
    source = trained(1e-3)
    source = replace(source, initial={name: source.initial["a"]}, final={name: source.final["a"]}, gradients={})
    moved = source.final[name] - source.initial[name]
    some = np.random.default_rng(3).uniform(size=SHAPE) < share
    port = replace(source, final={name: source.final[name] + np.where(some, off * moved, 0).astype(np.float32)})
    found = checks.check_weights(source, port, FLOAT32)
    assert found.status == status and found.measured is not None
    without = replace(source, config={})  # SGD has no such steps
    assert checks.check_weights(without, replace(port, config={}), FLOAT32).status == "differs"
