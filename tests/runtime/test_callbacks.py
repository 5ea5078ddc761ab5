"""Callbacks as transformers calls them, without a trainer. On real runs: tests/real/test_dialects_qlora.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.callbacks import BestMetric, EarlyStoppingCallback, Events, KeepBest, TrainerCallback


def context(step: int, *, saved: int | None = None, policy: KeepBest | None = None) -> Any:
    return SimpleNamespace(
        train_steps=step,
        is_managed_externally=True,
        model=f"the model after {step} steps",
        config=SimpleNamespace(
            max_steps=100,
            checkpoint_root_directory="/runs",
            checkpointing_options=SimpleNamespace(preservation_policy=policy),
        ),
        checkpoint_manager=SimpleNamespace(latest_step=lambda: saved),
    )


def evaluations(events: Events, losses: list[float], policy: KeepBest | None = None) -> list[Any]:
    seen = []
    for number, loss in enumerate(losses, 1):
        train_ctx = context(10 * number, saved=10 * number, policy=policy)
        events.evaluated(train_ctx, {"eval_loss": loss})
        seen.append(train_ctx)
    return seen


def stopped(contexts: list[Any]) -> list[int]:
    return [train_ctx.train_steps for train_ctx in contexts if train_ctx.config.max_steps < 100]


@pytest.mark.parametrize(
    ("patience", "threshold", "losses", "stops"),
    [
        (1, 0.0, [1.0, 0.9, 0.95, 0.8], [30, 40]),
        (2, 0.0, [1.0, 1.1, 0.9, 1.0, 1.0, 0.5], [50, 60]),
        (1, 0.2, [1.0, 0.9], [20]),  # it fell, but by less than the threshold
        (3, 0.0, [1.0, 0.9, 0.8], []),
    ],
)
def test_early_stopping_counts_as_transformers_does(
    patience: int, threshold: float, losses: list[float], stops: list[int]
) -> None:
    events = Events([EarlyStoppingCallback(patience, threshold)], None, None)
    assert stopped(evaluations(events, losses)) == stops


def test_the_best_step_is_the_saved_one_of_the_lowest_loss() -> None:
    policy = KeepBest(2)
    events = Events((), None, None)
    evaluations(events, [0.9, 0.7, 0.8], policy)
    assert (policy.step, events.state.best_metric, events.state.best_global_step) == (20, 0.7, 20)
    assert events.state.best_model_checkpoint == "/runs/20"
    events.evaluated(context(40, saved=30, policy=policy), {"eval_loss": 0.1})  # nothing saved at this step
    assert policy.step == 20 and events.state.best_metric == 0.1


@pytest.mark.parametrize(
    ("limit", "best", "kept"),
    [(None, 10, [10, 20, 30, 40]), (1, 40, [40]), (1, 20, [20, 40]), (3, 10, [10, 30, 40]), (2, None, [30, 40])],
)
def test_which_checkpoints_are_kept(limit: int | None, best: int | None, kept: list[int]) -> None:
    policy = KeepBest(limit)
    policy.step = best
    steps = [10, 20, 30, 40]
    preserved = policy.should_preserve([SimpleNamespace(step=step) for step in steps], context=None)
    assert [step for step, keep in zip(steps, preserved, strict=True) if keep] == kept


def test_events_come_in_the_trainers_order() -> None:
    told: list[str] = []

    class Tell(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append(f"step {state.global_step} epoch {state.epoch}")

        def on_epoch_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append("epoch")

        def on_save(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append("save")

        def on_log(self, args, state, control, logs=None, **kwargs):  # type: ignore[no-untyped-def]
            told.append(f"log {logs['loss']} by {args}")

        def on_train_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append("end")

        def on_step_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append(f"begin {state.global_step}")

        def on_epoch_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            told.append(f"epoch begins at {state.epoch}")

    events = Events([Tell], "training_args", 2)
    events.begin(context(0))
    events.micro_batch(context(0))
    events.micro_batch(context(0))  # the second of an accumulated step
    events.step(context(1), 1)
    events.log({"loss": 0.5, "step": 1}, context(1))
    events.micro_batch(context(1))
    events.step(context(2), 2)
    assert not events.ends_epoch(1) and events.ends_epoch(2)
    events.epoch(context(2), 2)
    events.ended(context(2, saved=2))
    events.save_last(context(2, saved=2))
    events.finish(context(2), 2)
    first = ["epoch begins at 0.0", "begin 0", "step 1 epoch 0.5", "log 0.5 by training_args", "begin 1"]
    assert told == [*first, "step 2 epoch 1.0", "epoch", "save", "end"]
    assert (events.state.max_steps, events.state.num_train_epochs) == (100, 50)


def test_a_checkpoint_is_told_at_its_own_step() -> None:
    """Hooks hear of a step late: a checkpoint is told before the next one is trained, with the model that it holds."""
    told: list[Any] = []

    class Tell(TrainerCallback):
        def on_save(self, args, state, control, model=None, tokenizer=None, **kwargs):  # type: ignore[no-untyped-def]
            told.append((state.global_step, model, tokenizer))

    events = Events([Tell], None, None, processing_class="the tokenizer")
    events.begin(context(0))
    events.micro_batch(context(2))
    events.step(context(2), 2)
    assert told == []
    events.saved(context(3, saved=3), 3)
    events.micro_batch(context(3, saved=3))
    events.step(context(4, saved=3), 4)
    events.saved(context(4, saved=3), 4)
    assert told == [(3, "the model after 3 steps", "the tokenizer")]


def test_what_is_no_callback_is_named() -> None:
    with pytest.raises(TypeError, match="int is no"):
        Events([3], None, None)


def test_the_best_is_chosen_by_the_metric_that_is_named() -> None:
    events = Events([EarlyStoppingCallback(1)], None, None, BestMetric.named("f1"))
    contexts = [context(10 * number, saved=10 * number) for number in (1, 2, 3)]
    for train_ctx, f1 in zip(contexts, (0.2, 0.5, 0.4), strict=True):
        events.evaluated(train_ctx, {"eval_loss": 1.0, "eval_f1": f1})
    assert (events.state.best_metric, events.state.best_global_step, stopped(contexts)) == (0.5, 20, [30])
    with pytest.raises(ValueError, match=r"there is no eval_f1 among the metrics of the evaluation, eval_loss$"):
        events.evaluated(context(40), {"eval_loss": 1.0, "epoch": 2})


def test_a_metric_is_better_as_training_arguments_says() -> None:
    named = BestMetric.named
    assert (named(None), named("loss"), named("eval_f1")) == (BestMetric(), BestMetric(), BestMetric("eval_f1", True))
    assert (named("f1", False).greater, named(None, True).greater, named("my_loss").greater) == (False, True, False)
    assert not BestMetric().better(float("nan"), None)


@pytest.mark.parametrize(
    ("transformers", "best", "metric"),
    [
        ("4.31.0", 40, 0.8),
        ("4.46.3", 40, 0.8),
        ("4.47.0", None, 0.5),
        ("4.49.0", None, 0.5),
        ("4.50.0", 20, 0.5),
        (None, 20, 0.5),
    ],
)
def test_evaluations_without_a_checkpoint_count_as_in_the_release(
    transformers: str | None, best: int | None, metric: float
) -> None:
    """Evaluated every 10 steps, saved every 20: as `Trainer._save_checkpoint` and `_determine_best_metric` have it."""
    policy = KeepBest(transformers=transformers)
    events = Events((), None, None)
    for step, loss in ((10, 1.0), (20, 0.9), (30, 0.5), (40, 0.8)):
        events.evaluated(context(step, saved=step - step % 20, policy=policy), {"eval_loss": loss})
    assert (policy.step, events.state.best_metric) == (best, metric)
