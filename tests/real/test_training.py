"""Log lines and evaluation of a run, beside the real Trainer's on the same regression."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optax
import pytest
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter.runtime.batches.evaluation_sets import EvaluationSets
from porter.runtime.callbacks import TrainerCallback
from porter.runtime.training.epochs import train_epoch
from porter.runtime.training.hooks import log_every
from porter.runtime.training.metrics_trainer import MetricsTrainer
from porter.runtime.training.start_anew import start_anew
from porter.runtime.training.train_result import train_result
from porter.runtime.training.training_settings import (
    evaluate,
)

from .regression import (
    BATCHES,
    EVAL,
    ROWS,
    STEPS,
    Line,
    TorchLine,
    X,
    Y,
    arguments,
    loss_fn,
    run_transformers,
    run_tunix,
)

pytestmark = pytest.mark.real


def test_prediction_loss_only_leaves_the_metrics_out() -> None:
    """As in transformers, which keeps no predictions then; batches of the whole evaluation aren't asked for, either."""
    config = TrainingConfig(eval_every_n_steps=5, max_steps=5)
    for alone in (True, False):
        trainer = MetricsTrainer(
            Line(), optax.sgd(0.1), config, compute_metrics=lambda _: {"x": 1.0}, prediction_loss_only=alone
        ).with_loss_fn(loss_fn)
        if alone:
            trainer.train(BATCHES, EVAL)
            assert trainer.evaluated == {} and "eval_x" not in evaluate(trainer, EVAL)
        else:
            with pytest.raises(ValueError, match="compute_metrics needs batches"):
                trainer.train(BATCHES, EVAL)


def test_an_epoch_at_a_time_trains_as_one_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same steps, log lines and losses; the last step of an epoch is known when the epoch is over."""
    whole, lines = run_tunix(tmp_path, data=[*BATCHES, *BATCHES], max_steps=2 * STEPS)
    capsys.readouterr()
    trainer, _ = run_tunix(tmp_path, data=[], max_steps=2 * STEPS)
    hooks = log_every(3, first_step=True, steps_per_epoch=STEPS)
    trainer.with_training_hooks(hooks)
    batches = SimpleNamespace(steps_per_epoch=STEPS, epoch=lambda number: iter(BATCHES))

    losses = [train_epoch(trainer, batches) for _ in range(2)]  # type: ignore[arg-type]

    logged = whole.metrics_logger.get_metric_history("", "loss", "train")
    np.testing.assert_allclose(np.concatenate(losses), logged, rtol=1e-6)
    wanted = {line["step"]: line["loss"] for line in lines.history if "loss" in line}
    assert {line["step"]: line["loss"] for line in hooks.history} == pytest.approx(wanted)
    np.testing.assert_array_equal(trainer.model.weight[...], whole.model.weight[...])


# A run's last step is evaluated where none is due, and what max_steps leaves of an epoch ends as an epoch does.
ENDS = [
    {},
    {"eval_steps": 4},
    {"max_steps": 7, "eval_strategy": "epoch", "logging_strategy": "epoch"},
    {"max_steps": 17, "eval_strategy": "epoch", "logging_strategy": "epoch"},
    {"max_steps": 17, "eval_steps": 0.4},
    {"gradient_accumulation_steps": 2, "max_grad_norm": 0.3},
    {"gradient_accumulation_steps": 2, "max_grad_norm": 0},
]


@pytest.mark.parametrize("settings", ENDS)
def test_the_log_lines_are_the_trainers(
    settings: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer, hooks = run_tunix(tmp_path / "tunix", data=[*BATCHES, *BATCHES], **settings)
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    lines = hooks.history
    theirs = run_transformers(tmp_path / "trainer", **settings)
    result = theirs[-1]
    assert train_result(trainer).training_loss == pytest.approx(result["train_loss"], rel=2e-6)
    assert train_result(trainer).global_step == result["step"]
    assert len(printed) == len(hooks.history)
    assert [(line["step"], "loss" in line) for line in lines] == [(line["step"], "loss" in line) for line in theirs]
    for ours, line in zip(lines, theirs, strict=True):
        assert set(line) - set(ours) <= {"total_flos"}
        for name in set(line) & {"loss", "eval_loss", "grad_norm", "learning_rate", "epoch", "train_loss"}:
            assert ours[name] == pytest.approx(line[name], rel=2e-6), (name, line["step"])
        if "train_runtime" in line:
            of_a_step = [each["train_samples_per_second"] / each["train_steps_per_second"] for each in (ours, line)]
            assert of_a_step[0] == pytest.approx(of_a_step[1], rel=1e-3)
    assert printed[0].startswith("{'loss': '") and "'learning_rate': '0'" in printed[0]


def test_several_evaluation_sets_are_evaluated_each_by_its_name(tmp_path: Path) -> None:
    settings = {"eval_on_start": True, "metric_for_best_model": "eval_few_loss"}
    sets = EvaluationSets({"all": EVAL, "few": EVAL[:2]})
    trainer, hooks = run_tunix(tmp_path / "tunix", held_out=sets, **settings)
    theirs = run_transformers(tmp_path / "trainer", sets={"all": ROWS, "few": 10}, **settings)
    losses = [{name: value for name, value in line.items() if name.endswith("loss")} for line in theirs]
    assert [line["step"] for line in hooks.history] == [line["step"] for line in theirs]
    for ours, line in zip(hooks.history, losses, strict=True):
        assert {name: ours[name] for name in ours if name.endswith("loss")} == pytest.approx(line, rel=1e-5)
    found = evaluate(trainer, sets, metric_key_prefix="test")
    assert {"test_all_loss", "test_few_loss"} <= found.keys()
    few = [line["eval_few_loss"] for line in theirs if "eval_few_loss" in line]
    assert found["test_few_loss"] == pytest.approx(few[-1], rel=1e-5)
    assert hooks.state.best_metric == pytest.approx(min(few[1:]), rel=1e-5)


def test_of_several_sets_one_has_the_loss_that_is_compared(tmp_path: Path) -> None:
    sets = EvaluationSets({"all": EVAL})
    with pytest.raises(ValueError, match=r"no eval_none_loss among .* eval_all_loss"):
        run_tunix(tmp_path / "tunix", held_out=sets, metric_for_best_model="eval_none_loss")
    with pytest.raises(TypeError, match="MetricsTrainer each of them"):
        iter(sets)


def test_a_trainer_that_is_done_does_not_train_again_in_silence(tmp_path: Path) -> None:
    trainer, _ = run_tunix(tmp_path)
    with pytest.raises(RuntimeError, match="has made its"):
        trainer.train(BATCHES, EVAL)


def test_a_trainer_that_starts_anew_trains_on_as_transformers_does(tmp_path: Path) -> None:
    """The schedule from its start, with the weights and moments of the time before; checkpoints beside the first's."""
    saved = {"save_strategy": "steps", "save_steps": 4}
    trainer, hooks = run_tunix(tmp_path / "tunix", **saved)
    trainer.config.max_steps = 3  # as a callback that stops early leaves it
    start_anew(trainer)
    trainer.train(BATCHES, EVAL)
    theirs = run_transformers(tmp_path / "trainer", times=2, **saved)
    result = theirs[-1]
    assert train_result(trainer).training_loss == pytest.approx(result["train_loss"], rel=2e-6)
    assert [line["step"] for line in hooks.history] == [line["step"] for line in theirs]
    for ours, line in zip(hooks.history, theirs, strict=True):
        for name in set(line) & {"loss", "eval_loss", "grad_norm", "learning_rate", "epoch"}:
            assert ours[name] == pytest.approx(line[name], rel=1e-5), (name, line["step"])
    assert {"4", "8", "10"} <= {each.name for each in (tmp_path / "tunix-2").iterdir()}


def test_a_trainer_that_has_not_trained_is_left_alone_by_start_anew(tmp_path: Path) -> None:
    trainer = PeftTrainer(Line(), optax.sgd(0.1), TrainingConfig(eval_every_n_steps=1, max_steps=2))
    trainer.with_training_hooks(log_every(1))
    before = trainer.checkpoint_manager
    start_anew(trainer)
    assert trainer.checkpoint_manager is before


def test_the_record_is_the_trainers_own_state(tmp_path: Path) -> None:
    """Beside what the Trainer saves with logging_steps=1, whatever ours prints; in its checkpoints, too."""
    from transformers import Trainer, TrainerState, TrainingArguments

    asked = {"save_strategy": "steps", "save_steps": 4}
    run_tunix(tmp_path / "tunix", **asked)
    rows = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)]
    settings = arguments(tmp_path / "trainer", **asked, logging_steps=1)
    args = TrainingArguments(**settings, use_cpu=True, train_sampling_strategy="sequential", label_names=["y"])
    trainer = Trainer(TorchLine(), args, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    trainer.save_state()
    for mine, yours in (("", ""), ("4", "checkpoint-4"), ("8", "checkpoint-8"), ("10", "checkpoint-10")):
        ours = TrainerState.load_from_json(str(tmp_path / "tunix" / mine / "trainer_state.json"))
        theirs = TrainerState.load_from_json(str(tmp_path / "trainer" / yours / "trainer_state.json"))
        assert (ours.global_step, ours.max_steps, ours.epoch) == (theirs.global_step, theirs.max_steps, theirs.epoch)
        assert ours.num_train_epochs == theirs.num_train_epochs and ours.logging_steps == theirs.logging_steps
        # The Trainer writes a checkpoint before its best metric is known.
        lines = ours.log_history
        assert [line["step"] for line in lines] == [line["step"] for line in theirs.log_history]
        for line, known in zip(lines, theirs.log_history, strict=True):
            for name in {"loss", "eval_loss", "grad_norm", "learning_rate", "epoch", "train_loss"} & known.keys():
                assert line[name] == pytest.approx(known[name], rel=1e-5), (name, known["step"])
    settings = ours.stateful_callbacks["tpu_port"]["attributes"]["settings"]
    assert settings["weight_decay"] == 0.1 and settings["max_grad_norm"] == 1.0


def test_shares_epochs_and_nothing(tmp_path: Path) -> None:
    _, hooks = run_tunix(tmp_path, logging_steps=0.25, logging_first_step=False)
    assert [line["step"] for line in hooks.history if "loss" in line] == [3, 6, 9]
    _, hooks = run_tunix(tmp_path, logging_strategy="epoch", logging_first_step=False)
    assert [line["step"] for line in hooks.history if "loss" in line] == [10]
    _, hooks = run_tunix(tmp_path, logging_strategy="no", logging_first_step=False)
    assert [next(iter(line)) for line in hooks.history] == ["eval_loss", "eval_loss", "train_runtime"]
    with pytest.raises(ValueError, match="logging_steps"):
        log_every(0)


def test_a_loss_that_is_no_number_stays_out_of_the_mean(tmp_path: Path) -> None:
    hooks = log_every(4)
    config = SimpleNamespace(max_steps=4, gradient_accumulation_steps=2, checkpoint_root_directory=None)
    unsaved = SimpleNamespace(latest_step=lambda: None)
    trainer = SimpleNamespace(train_steps=0, config=config, model=None, checkpoint_manager=unsaved)
    trainer.metrics_logger = SimpleNamespace(get_metric_history=lambda *names: [float("nan")])
    trainer.metrics_prefix = ""
    hooks.on_train_start(trainer)
    for step, loss in enumerate([2.0, float("nan"), 3.0, 3.0], 1):
        hooks.on_train_step_end(trainer, step, loss)
    # transformers adds the window's mean so far, counting the step itself: 2 / 2.
    assert (hooks.history[0]["loss"], hooks.history[0]["step"]) == ((2.0 + 1.0 + 3.0 + 3.0) / 4, 4)
    assert math.isnan(hooks.history[0]["grad_norm"]), "a norm is told as it is"


def test_evaluation_is_the_trainers(tmp_path: Path) -> None:
    trainer, hooks = run_tunix(tmp_path)
    lines, seen = [*hooks.history], []

    class Watch(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen.append(("log", sorted(kwargs["logs"])))

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen.append(("evaluate", sorted(kwargs["metrics"])))

    hooks.add(Watch)
    found = evaluate(trainer, EVAL)
    assert found["eval_loss"] == pytest.approx(lines[-2]["eval_loss"], rel=1e-6)
    assert hooks.history == [*lines, {**found, "step": 10}] and hooks.state.log_history[-1]["step"] == 10
    assert seen == [("log", sorted([*found, "step"])), ("evaluate", sorted(found))]
    with pytest.raises(ValueError, match="nothing to evaluate"):
        evaluate(trainer, [])


def test_a_strategy_that_tunix_cannot_follow_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'best'"):
        run_tunix(tmp_path, save_strategy="best")


def test_tunix_reports_a_step_late_and_last_after_the_end() -> None:
    """What the log lines set right; when this fails, Tunix has changed and hooks.py can be simpler."""
    seen: list[Any] = []

    class Spy(type(log_every(None))):  # type: ignore[misc]
        def on_train_step_end(self, train_ctx: Any, train_step: int, train_loss: float) -> None:
            seen.append((train_step, train_ctx.train_steps))

        def on_train_end(self, train_ctx: Any) -> None:
            seen.append("end")

    trainer = PeftTrainer(Line(), optax.sgd(0.1), TrainingConfig(eval_every_n_steps=100, max_steps=3))
    trainer.with_gen_model_input_fn(lambda batch: batch).with_loss_fn(loss_fn)
    trainer.with_training_hooks(Spy(None, False, None, None))
    trainer.train(BATCHES)
    assert seen == [(1, 2), (2, 3), "end", (3, 3)]
