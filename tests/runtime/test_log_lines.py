"""The lines of `rt.log_every`, without a trainer: what they have, and when they come. With one: tests/real."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optax
import pytest

from porter.runtime.callbacks import TrainerCallback
from porter.runtime.facts.releases import release
from porter.runtime.facts.releases.lines import CLIP_RATIOS, Lines, lines_of
from porter.runtime.losses.for_metrics import named
from porter.runtime.losses.token_loss import TokenLoss
from porter.runtime.preferences.answer_shares import answer_shares
from porter.runtime.training.hooks import log_every
from porter.runtime.training.own_metrics import _highest, _lowest, measured, telling
from porter.runtime.training.train_result import train_result
from tests.runtime.reporting import Trainer, record


@pytest.mark.parametrize(("transformers", "ahead"), [("4.50.3", 1), ("4.51.0", 0), (None, 0)])
def test_the_lines_of_older_transformers_have_the_next_steps_rate(
    tmp_path: Path, transformers: str | None, ahead: int
) -> None:
    told: list[float] = []

    class Tells(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if "loss" in logs:
                told.append(logs["learning_rate"])

    schedule = optax.linear_schedule(1e-3, 0.0, 6)
    hooks = log_every(2, schedule=schedule, callbacks=[Tells()], transformers=transformers)
    Trainer(tmp_path).train(hooks, 6)
    assert told == [float(schedule(step - 1 + ahead)) for step in (2, 4, 6)]
    assert [line["learning_rate"] for line in hooks.state.log_history[:-1]] == told
    own = [line["learning_rate"] for line in record(tmp_path)["log_history"] if "loss" in line]
    assert own == pytest.approx([float(schedule(step)) for step in range(6)], rel=1e-6), (
        "the record has each step's own"
    )


@pytest.mark.parametrize(("asked", "said"), [(-1, [6]), (0.4, [3, 6])])
def test_a_share_and_less_than_nothing_are_read_as_transformers_does(asked: float, said: list[int]) -> None:
    hooks = log_every(asked, steps_per_epoch=3)
    Trainer(None).train(hooks, 6)
    assert [line["step"] for line in hooks.history if "loss" in line] == said


def test_an_evaluation_has_its_time(tmp_path: Path) -> None:
    hooks, trainer = log_every(2), Trainer(tmp_path)
    trainer.evaluates_on = SimpleNamespace(rows=10, gpu_batches=5)
    hooks.on_train_start(trainer)
    for _ in range(2):
        for _ in range(3):  # this mesh's batches
            hooks.on_eval_step_start(trainer)
        time.sleep(0.02)
        hooks.on_eval_step_end(trainer, 0.5)
    hooks.on_train_end(trainer)
    lines = [line for line in record(tmp_path)["log_history"] if "eval_loss" in line]
    assert len(lines) == 2
    for line in lines:
        assert 0.02 <= line["eval_runtime"] < 1
        assert line["eval_steps_per_second"] == pytest.approx(5 / line["eval_runtime"], rel=0.01)
        assert line["eval_samples_per_second"] == pytest.approx(10 / line["eval_runtime"], rel=0.01)


@pytest.mark.parametrize(
    ("transformers", "clips", "logged"),
    [
        ("4.37.2", True, False),
        ("4.38.0", True, True),
        ("4.38.0", False, False),
        ("5.2.0", False, False),
        ("5.3.0", False, True),
        (None, False, True),
    ],
)
def test_a_line_has_the_norm_where_its_release_logged_it(transformers: str | None, clips: bool, logged: bool) -> None:
    trainer, hooks = Trainer(None), log_every(1, transformers=transformers)
    if not clips:
        trainer.optimizer = SimpleNamespace(tx=optax.sgd(1e-3))
    trainer.train(hooks, 2)
    assert ["grad_norm" in line for line in hooks.history if "loss" in line] == [logged] * 2


def test_lines_have_what_the_batches_count_from_where_the_run_goes_on() -> None:
    trainer, hooks = Trainer(None, steps=2), log_every(2)
    trainer.trains_on = SimpleNamespace(
        counts=lambda first, until: {"num_tokens": 10.0 * (until - first)}, logged=SimpleNamespace(times_steps=True)
    )
    trainer.train(hooks, 6)
    hooks.on_eval_step_end(trainer, 0.5)
    lines = [line for line in hooks.history if "loss" in line]
    assert [(line["step"], line["num_tokens"]) for line in lines] == [(4, 20.0), (6, 40.0)]
    assert all(0 <= line["step_time"] < 1 for line in lines)
    assert hooks._first_metrics["eval_num_tokens"] == 40.0


def test_a_clock_that_jumps_is_in_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps, clock = itertools.cycle([0.0, 4e7, -9e4]), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + next(jumps))
    Trainer(tmp_path).train(log_every(1), 6)
    *lines, summary = record(tmp_path)["log_history"]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert all(0 < line["steps_per_second"] < 1e6 for line in lines) and 0 < summary["train_runtime"] < 60


@pytest.mark.parametrize("asked", [True, False])
def test_the_evaluation_before_the_first_step_has_a_line_where_it_was_asked_for(tmp_path: Path, asked: bool) -> None:
    hooks = log_every(2, eval_on_start=asked)
    trainer = Trainer(tmp_path)
    hooks.on_eval_step_end(trainer, 0.5)
    trainer.train(hooks, 2)
    assert ["eval_loss" in line for line in hooks.history] == ([True] if asked else []) + [False, False]
    assert ["eval_loss" in line for line in record(tmp_path)["log_history"]].count(True) == int(asked)

    resumed = log_every(2, eval_on_start=asked)  # at a step that was evaluated before
    resumed.on_eval_step_end(trainer, 0.5)
    resumed.on_train_start(trainer)
    assert [line["step"] for line in resumed.history] == ([2] if asked else [])


class Measuring(Trainer):
    """One whose loss tells the number of its step."""

    metric_names = ("told",)

    def __init__(self, kind: str, trl: str) -> None:
        super().__init__(None)
        self.config.eval_every_n_steps = 2
        self.trains_on = SimpleNamespace(lines=Lines(kind, release(trl)))
        self.metrics_logger = SimpleNamespace(get_metric_history=self._history)

    def _history(self, prefix: str, name: str, mode: str) -> np.ndarray:
        steps = self.hooks._reported if hasattr(self, "hooks") else 0
        return np.arange(1.0, steps + 1) if name == "told" else np.full(max(steps, 1), 0.25)

    def evaluate(self, hooks: Any, loss: float) -> None:
        hooks.on_eval_step_end(self, loss)


@pytest.mark.parametrize(
    ("kind", "trl", "evaluated", "lines", "last", "returned"),
    [
        ("dpo", "1.16.0", False, [2.5], 5.5, True),  # a line at step 4 of 6
        ("dpo", "1.4.0", False, [2.5], 5.5, False),
        ("dpo", "0.28.0", False, [2.5], None, False),
        ("orpo", "1.16.0", False, [2.5], None, False),
        ("", "1.16.0", False, [2.5], None, False),
        ("sft", "0.26.0", False, [2.5], 5.5, True),
        ("sft", "0.28.0", False, [2.5], 5.5, False),
        ("sft", "0.28.0", True, [2.5], None, False),  # an evaluation leaves the model in evaluation mode
        ("sft", "0.17.0", True, [None], 3.5, False),  # what is due for one keeps its metrics for the next line
        ("sft", "0.17.0", False, [2.5], 5.5, False),
    ],
)
def test_the_last_line_has_what_no_line_has_told(
    kind: str, trl: str, evaluated: bool, lines: list[float | None], last: float | None, returned: bool
) -> None:
    trainer, hooks = Measuring(kind, trl), log_every(4)
    if evaluated:
        trainer.hooks = hooks
        trainer.evaluate(hooks, 0.5)  # as Tunix does, before the first step
    trainer.train(hooks, 6, evaluated=dict.fromkeys((2, 4, 6), 0.5) if evaluated else None)
    assert [line.get("told") for line in hooks.history if "loss" in line] == lines
    assert hooks.history[-1].get("told") == last and "grad_norm" not in hooks.history[-1]
    found = train_result(trainer, SimpleNamespace(steps=6, steps_per_epoch=3)).metrics
    assert ("told" in found, "epoch" in found) == (returned, returned or not trainer.trains_on.lines.keeps)


@pytest.mark.parametrize(("trl", "chosen", "margins"), [("1.16.0", 2.0, 0.5), ("1.5.0", 2.5, 1.75)])
def test_rewards_of_kto_are_means_over_what_its_release_takes(trl: str, chosen: float, margins: float) -> None:
    """Over micro-batches that have such rows, or over rows."""
    none = float("nan")
    told = {
        "count/chosen": [1.0, 3.0, none],
        "count/rejected": [2.0, none, 2.0],
        "rewards/chosen": [1.0, 3.0, none],
        "rewards/rejected": [0.5, none, 1.0],
        "rewards/margins": [0.5, none, none],
        "kl": [1.0, 2.0, 3.0],
    }
    steps = {name: [np.array(values[:2]), np.array(values[2:])] for name, values in told.items()}
    trainer = SimpleNamespace(told={"train": steps}, trains_on=SimpleNamespace(lines=lines_of("kto", trl)))
    found = measured(trainer, "train", 2)
    assert (found["rewards/chosen"], found["rewards/margins"], found["kl"]) == (chosen, margins, 2.0)
    assert "count/chosen" not in found and measured(trainer, "train", 1)["kl"] == 3.0


@pytest.mark.parametrize(
    ("trl", "entropy", "answers"),
    [
        ("1.16.0", [1 / 8, 1 / 8, 1 / 8], [[1 / 5, 1 / 3], [1 / 5, 1 / 3], [1 / 5, 1 / 3]]),
        (
            "0.29.0",
            [1 / 10, 1 / 10, 1 / 6],
            [[1 / 5, 1 / 3], [1 / 5, 1 / 3], [1 / 5, 1 / 3]],
        ),  # of each process
        ("0.12.0", None, [[1 / 6, 1 / 4], [1 / 6, 1 / 4], [1 / 4, 1 / 2]]),
    ],
)
def test_a_token_counts_by_the_answers_of_its_micro_step_or_of_its_process(
    trl: str, entropy: list[float] | None, answers: list[list[float]]
) -> None:
    tokens, kinds = np.array([[1, 1], [2, 1], [2, 1]]), np.tile([0, 1], (3, 1))
    found = answer_shares(lines_of("dpo", trl), [[2, 1]], tokens, kinds)
    np.testing.assert_allclose(found["answers"], answers)
    if entropy is None:
        assert "entropy" not in found
    else:
        np.testing.assert_allclose(found["entropy"], np.repeat(entropy, 2).reshape(3, 2))


@pytest.mark.parametrize(
    ("kind", "trl", "loss_type", "said"),
    [
        ("grpo", "0.15.2", "grpo", ()),
        ("grpo", "0.16.0", "grpo", ("clip_ratio",)),
        ("grpo", "0.25.1", "cispo", CLIP_RATIOS),
        ("grpo", "1.16.0", "cispo", ("cispo_clip_ratio",)),
        ("grpo", "1.16.0", "sapo", ()),
        ("rloo", "1.16.0", "rloo", CLIP_RATIOS),
    ],
)
def test_clipped_ratios_have_the_names_of_their_release(
    kind: str, trl: str, loss_type: str, said: tuple[str, ...]
) -> None:
    assert lines_of(kind, trl).clips(loss_type) == said


def test_the_lowest_and_the_highest_are_those_of_each_micro_step() -> None:
    of_micro_batches = [np.array([0.1, -np.inf]), np.array([0.4, 0.2])]  # the first has no row of the second micro-step
    assert _highest(of_micro_batches) == pytest.approx((0.4 + 0.2) / 2)
    assert _lowest([-each for each in of_micro_batches]) == pytest.approx(-(0.4 + 0.2) / 2)
    assert np.isnan(_highest([np.array([-np.inf])]))


def test_a_runtimes_loss_tells_a_batchs_metrics_while_a_step_is_made_and_a_scripts_own_does_not() -> None:
    batch = {"scale": np.ones(2), **named({"entropy": np.full(2, 0.5)})}
    for loss, tells in ((TokenLoss(4), True), (lambda model, scale: scale.sum(), False)):
        trainer = SimpleNamespace(loss_fn=loss, eval_loss_fn=loss, _has_aux=False)
        with telling(trainer, batch):
            assert trainer._has_aux is tells and (trainer.loss_fn is loss) is not tells
            assert trainer.eval_loss_fn is trainer.loss_fn
            if tells:
                assert trainer.loss_fn.chunks == 4 and trainer.loss_fn.shares["entropy"].sum() == 1
        assert (trainer.loss_fn, trainer.eval_loss_fn, trainer._has_aux) == (loss, loss, False)
        assert getattr(loss, "shares", None) is None


def test_what_an_evaluation_has_not_measured_is_in_no_line() -> None:
    """With compute_metrics it computes no entropy, and Tunix's logger refuses what it never got."""

    def history(prefix: str, name: str, mode: str) -> Any:
        if mode == "eval":
            raise ValueError(f"Metric {name!r} not found")
        return np.array([1.0, 3.0])

    logger = SimpleNamespace(get_metric_history=history)
    trainer = SimpleNamespace(metric_names=("entropy",), metrics_logger=logger, metrics_prefix="")
    assert (measured(trainer, "eval", 1), measured(trainer, "train", 2)) == ({}, {"entropy": 2.0})
