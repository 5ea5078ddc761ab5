"""Log lines, evaluation and checkpoints of a run, beside the real Trainer's on the same regression."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from porter.runtime.batches.evaluation_sets import EvaluationSets
from porter.runtime.callbacks import TrainerCallback
from porter.runtime.saving import checkpoints
from porter.runtime.saving.checkpoints import fresh_dir, resume_dir
from porter.runtime.training.epochs import train_epoch
from porter.runtime.training.hooks import log_every
from porter.runtime.training.metrics_trainer import MetricsTrainer
from porter.runtime.training.optimizers import clip_by_global_norm, decay_mask, hf_optimizer
from porter.runtime.training.schedules import hf_schedule
from porter.runtime.training.start_anew import start_anew
from porter.runtime.training.train_result import train_result
from porter.runtime.training.training_settings import (
    evaluate,
    training_config,
    training_hooks,
)

pytestmark = pytest.mark.real

ROWS = 20
DRAW = np.random.default_rng(1)
X = DRAW.normal(size=(ROWS, 3)).astype(np.float32)
Y = DRAW.normal(size=(ROWS,)).astype(np.float32)
BATCHES = [{"x": X[at : at + 2], "y": Y[at : at + 2]} for at in range(0, ROWS, 2)]
EVAL = [{"x": X[at : at + 5], "y": Y[at : at + 5]} for at in range(0, ROWS, 5)]
STEPS = len(BATCHES)


class Line(nnx.Module):
    """y = w x, from w = 0.1."""

    def __init__(self) -> None:
        self.weight = nnx.Param(jnp.full((3,), 0.1))


def loss_fn(model: Line, x: Any, y: Any) -> Any:
    return ((x @ model.weight[...] - y) ** 2).mean()


class TorchLine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 0.1))

    def forward(self, x: Any, y: Any) -> dict[str, Any]:
        return {"loss": ((x @ self.weight - y) ** 2).mean()}


def arguments(folder: Path, **settings: Any) -> dict[str, Any]:
    return {
        "output_dir": str(folder), "learning_rate": 0.05, "optim": "adamw_torch", "weight_decay": 0.1,
        "warmup_steps": 2, "max_grad_norm": 1.0, "num_train_epochs": 1, "logging_steps": 3,
        "logging_first_step": True, "eval_strategy": "steps", "eval_steps": 5, "save_strategy": "no",
        "per_device_train_batch_size": 2, "per_device_eval_batch_size": 5, "report_to": "none", **settings,
    }  # fmt: skip


def run_transformers(
    folder: Path, callbacks: Any = (), times: int = 1, sets: Any = None, **settings: Any
) -> list[dict[str, Any]]:
    from transformers import Trainer, TrainingArguments

    rows = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)]
    args = TrainingArguments(
        **arguments(folder, **settings), use_cpu=True, train_sampling_strategy="sequential", label_names=["y"]
    )
    held_out = {name: rows[:count] for name, count in sets.items()} if sets else rows
    trainer = Trainer(TorchLine(), args, train_dataset=rows, eval_dataset=held_out, callbacks=[*callbacks])
    for _ in range(times):
        trainer.train()
    return [line for line in trainer.state.log_history if any(name.endswith("loss") for name in line)]


def run_tunix(
    folder: Path, data: Any = BATCHES, callbacks: Any = (), held_out: Any = EVAL, **settings: Any
) -> tuple[PeftTrainer, Any]:
    rest = {"logging_strategy": "steps", "save_steps": 500, "save_total_limit": None, "run_name": None}
    args = SimpleNamespace(**{**rest, **arguments(folder, **settings)})
    steps = settings.get("max_steps", STEPS)
    batches = SimpleNamespace(steps=steps, steps_per_epoch=STEPS, accumulation=None)
    schedule = hf_schedule("linear", args.learning_rate, warmup_steps=args.warmup_steps, steps=steps)
    optimizer = optax.chain(
        clip_by_global_norm(args.max_grad_norm),
        hf_optimizer(args.optim, schedule, weight_decay=args.weight_decay, mask=decay_mask),
    )
    trainer = MetricsTrainer(Line(), optimizer, training_config(args, batches, eval=True))
    trainer.with_gen_model_input_fn(lambda batch: batch).with_loss_fn(loss_fn)
    hooks = training_hooks(args, batches, schedule, callbacks)
    trainer.with_training_hooks(hooks)
    trainer.train(data, held_out)
    return trainer, hooks


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
        for name in set(line) & {"loss", "eval_loss", "grad_norm", "learning_rate", "epoch", "train_loss"}:
            assert ours[name] == pytest.approx(line[name], rel=2e-6), (name, line["step"])
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
    hooks.on_train_start(trainer)
    for step, loss in enumerate([2.0, float("nan"), 3.0, 3.0], 1):
        hooks.on_train_step_end(trainer, step, loss)
    # transformers adds the window's mean so far, counting the step itself: 2 / 2.
    assert hooks.history[0] == {"loss": (2.0 + 1.0 + 3.0 + 3.0) / 4, "step": 4}


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


def watch(base: type, seen: dict[str, list[tuple[int, list[float]]]]) -> type:
    """A callback on transformers' base or the runtime's that notes each event's step and the weights it is given."""

    def note(name: str) -> Any:
        def event(self: Any, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            weight = model.weight[...] if isinstance(model, Line) else model.weight.detach()
            seen.setdefault(name, []).append((state.global_step, np.asarray(weight).tolist()))

        return event

    names = "on_train_begin on_epoch_begin on_step_begin on_epoch_end on_evaluate on_save on_train_end".split()
    return type("Watch", (base,), {name: note(name) for name in names})


@pytest.mark.parametrize("settings", [{"eval_steps": 5}, {"eval_steps": 4}, {"max_steps": 7}])
def test_callbacks_are_given_the_model_of_their_step(settings: dict[str, Any], tmp_path: Path) -> None:
    from transformers import TrainerCallback as Base

    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    asked = {"save_strategy": "steps", "save_steps": 4, **settings}
    run_tunix(tmp_path / "tunix", callbacks=[watch(TrainerCallback, ours)], **asked)
    run_transformers(tmp_path / "trainer", callbacks=[watch(Base, theirs)], **asked)
    assert ours.keys() == theirs.keys()
    for name, events in theirs.items():
        assert [step for step, _ in ours[name]] == [step for step, _ in events], name
        for (_, mine), (_, weight) in zip(ours[name], events, strict=True):
            np.testing.assert_allclose(mine, weight, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"eval_steps": 5, "save_steps": 4},
        {"eval_steps": 3, "save_steps": 3, "max_steps": 7, "logging_steps": 2},
        {"eval_strategy": "epoch", "save_strategy": "epoch", "max_steps": 20},
        {"logging_strategy": "epoch", "max_steps": 20, "save_strategy": "no"},
        {"logging_strategy": "epoch", "save_strategy": "epoch", "max_steps": 13, "eval_steps": 4},
    ],
)
def test_callbacks_are_called_in_the_trainers_order(settings: dict[str, Any], tmp_path: Path) -> None:
    """Every event, with what `log_history` holds then and the model of its step."""
    from transformers import TrainerCallback as Base

    def told(base: type, seen: list[Any]) -> Any:
        def note(name: str) -> Any:
            def event(self: Any, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
                last = next((line for line in reversed(state.log_history) if name != "on_log"), {})
                known = {key: line for key, line in last.items() if key in ("loss", "step", "eval_loss")}
                weight = model.weight[...] if isinstance(model, Line) else model.weight.detach()
                logged = sorted(set(kwargs.get("logs", ())) & {"loss", "eval_loss", "train_loss"})
                seen.append((name, state.global_step, logged, known, np.asarray(weight).tolist()))

            return event

        when = "step_begin step_end log evaluate save epoch_begin epoch_end train_begin train_end".split()
        return type("Told", (base,), {f"on_{name}": note(f"on_{name}") for name in when})

    ours: list[Any] = []
    theirs: list[Any] = []
    asked = {"save_strategy": "steps", **settings}
    run_tunix(tmp_path / "tunix", data=[*BATCHES, *BATCHES], callbacks=[told(TrainerCallback, ours)], **asked)
    run_transformers(tmp_path / "trainer", callbacks=[told(Base, theirs)], **asked)
    assert [each[:3] for each in ours] == [each[:3] for each in theirs]
    for mine, right in zip(ours, theirs, strict=True):
        assert mine[3] == pytest.approx(right[3], rel=1e-4), mine[:3]
        np.testing.assert_allclose(mine[4], right[4], atol=1e-5, err_msg=str(mine[:3]))


@pytest.mark.parametrize("event", ["on_step_end", "on_log", "on_epoch_end", "on_evaluate"])
def test_a_stop_comes_at_the_trainers_step(event: str, tmp_path: Path) -> None:
    from transformers import TrainerCallback as Base

    def stops(base: type, steps: list[int]) -> Any:
        def stop(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop = True

        def count(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            steps.append(state.global_step)

        return type("Stops", (base,), {event: stop, "on_train_end": count})

    ours: list[int] = []
    theirs: list[int] = []
    asked: dict[str, Any] = {"max_steps": 20, "logging_first_step": False, "eval_steps": 4}
    run_tunix(tmp_path / "tunix", data=[*BATCHES, *BATCHES], callbacks=[stops(TrainerCallback, ours)], **asked)
    run_transformers(tmp_path / "trainer", callbacks=[stops(Base, theirs)], **asked)
    assert ours == theirs


def test_the_last_step_may_be_the_best_checkpoint(tmp_path: Path) -> None:
    """It is evaluated before Tunix saves it, and is one of those that are compared, as in transformers."""
    from transformers import Trainer, TrainingArguments

    asked = {"save_strategy": "steps", "save_steps": 4, "eval_steps": 4, "metric_for_best_model": "loss"}
    asked |= {"save_total_limit": 2, "num_train_epochs": 1}
    _, hooks = run_tunix(tmp_path / "tunix", **asked)
    rows = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)]
    settings = arguments(tmp_path / "trainer", **asked)
    args = TrainingArguments(**settings, use_cpu=True, train_sampling_strategy="sequential", label_names=["y"])
    trainer = Trainer(TorchLine(), args, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert (hooks.state.best_global_step, trainer.state.best_global_step) == (10, 10)
    assert str(trainer.state.best_model_checkpoint).endswith("checkpoint-10")
    assert str(hooks.state.best_model_checkpoint) == str(tmp_path / "tunix" / "10")


def test_checkpoints_come_when_asked_and_resume_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 2}
    trainer, _ = run_tunix(tmp_path, **asked)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.isdigit()) == ["10", "8"]
    monkeypatch.setattr(checkpoints, "_given", {})  # as in another process
    with pytest.raises(FileExistsError, match=r"steps 8, 10.*rt\.resume_dir"):
        run_tunix(tmp_path, **asked)
    history = (tmp_path / "trainer_state.json").read_text()
    assert (tmp_path / "10" / "trainer_state.json").is_file(), "it must not be in the way of what Orbax restores"
    resumed, hooks = run_tunix(tmp_path, data=[*BATCHES], **asked, resume_from_checkpoint=True)
    assert history.count('"loss"') == (tmp_path / "trainer_state.json").read_text().count('"loss"') == 10
    assert resumed.train_steps == 10 and not [line for line in hooks.history if "loss" in line]
    np.testing.assert_array_equal(resumed.model.weight[...], trainer.model.weight[...])


def test_a_further_training_of_one_process_has_a_folder_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Trainer writes into the folder again; Tunix would resume from what is there."""
    first = fresh_dir(tmp_path / "out")
    assert fresh_dir(first) == first, "nothing was saved there"
    (tmp_path / "out" / "100").mkdir(parents=True)
    assert [fresh_dir(first), fresh_dir(first)] == [f"{first}-2", f"{first}-3"]
    assert f"{first} holds the checkpoints of a training before" in capsys.readouterr().out
    (tmp_path / "older" / "100").mkdir(parents=True)
    for _ in range(2):
        with pytest.raises(FileExistsError, match="earlier run"):
            fresh_dir(tmp_path / "older")


def test_folders_are_named_when_they_cannot_serve(tmp_path: Path) -> None:
    assert fresh_dir(tmp_path / "new") == str(tmp_path / "new")
    (tmp_path / "100").mkdir()
    (tmp_path / "200").mkdir()
    assert resume_dir(tmp_path) == resume_dir(tmp_path / "200") == str(tmp_path)
    assert resume_dir(tmp_path / "another", tmp_path / "200") == resume_dir(tmp_path, True) == str(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"newest checkpoint, which is .*200"):
        resume_dir(tmp_path / "100")
    with pytest.raises(FileNotFoundError, match="PyTorch checkpoint"):
        resume_dir(tmp_path / "checkpoint-500")


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
