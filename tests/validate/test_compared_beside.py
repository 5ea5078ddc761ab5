"""What is compared beside the steps of a training: other meshes, evaluations, metrics, what a run leaves behind."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from porter.validate.comparing import compare as checks
from porter.validate.comparing.preferences import stored_metrics
from porter.validate.comparing.tolerances import FLOAT32
from porter.validate.comparing.trace import Trace
from porter.validate.comparing.verdict import Verdict

from .synthetic_traces import run, with_config, with_steps


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
