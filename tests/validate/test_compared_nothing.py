"""What one side doesn't tell or doesn't train is no equality: it differs, is skipped or gives no verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from porter.validate.comparing import compare as checks
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Row, Step, Trace
from porter.validate.comparing.verdict import Check, Verdict
from porter.validate.run import check_trains
from porter.validate.running.processes import RunFailed

from .synthetic_traces import CONFIG, NAMES, dataset, first, run, with_steps


def test_a_nan_in_the_middle_is_no_equality() -> None:
    port = with_steps(run(), lambda number, step: replace(step, loss=float("nan")) if number == 7 else step)

    assert (first(run(), port).name, first(run(), port).step) == (checks.LOSS, 8)


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


def test_a_gradient_norm_that_only_the_source_shows() -> None:
    blind = with_steps(run(), lambda number, step: replace(step, grad_norm=None))

    assert first(run(), blind).name == checks.GRAD_NORM
    assert checks.check_grad_norm(blind, run(), FLOAT32).status == "skipped"  # max_grad_norm=0 in the source


def test_what_an_old_release_does_not_tell_is_skipped() -> None:
    blind = with_steps(run(), lambda number, step: replace(step, learning_rate=None, grad_norm=None))

    assert checks.check_learning_rate(blind, run(), FLOAT32).status == "equal", "its schedule tells"
    assert checks.check_learning_rate(replace(blind, schedule=()), run(), FLOAT32).status == "skipped"
    assert checks.check_learning_rate(run(), replace(blind, schedule=()), FLOAT32).status == "differs"
    assert checks.check_weights(blind, run(), FLOAT32).status == "equal"
    bare = replace(blind, schedule=(), config={}, gradients={}, final={}, initial={})
    assert checks.compare(bare, run(), FLOAT32), "never ends in an error"


def test_a_source_that_trains_no_token_gives_no_verdict() -> None:
    trace = run()
    check_trains(trace)
    check_trains(Trace())  # that it never started is said elsewhere
    untrained = [Row.of(row.tokens, np.full_like(row.labels, -100)) for row in dataset()]
    steps = tuple(replace(step, rows=tuple(untrained[:4])) for step in trace.steps)
    with pytest.raises(RunFailed, match="the source trained no token of its rows"):
        check_trains(replace(trace, steps=steps))
