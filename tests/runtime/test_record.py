"""trainer_state.json, without a trainer: what a reader, a resumed run and transformers find. With one: tests/real."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optax
import pytest

from porter.runtime.callbacks import KeepBest, TrainerCallback, TrainerState
from porter.runtime.losses.preference_losses import kto_loss, orpo_loss
from porter.runtime.saving.record import NAME, OURS
from porter.runtime.training.hooks import log_every
from porter.runtime.training.recording import Recording, rates
from porter.runtime.training.run_facts import free_variables, learning_rate
from tests.runtime.reporting import ROWS, Trainer, batch, record, steps


def test_every_step_is_there_unrounded_whatever_is_printed(tmp_path: Path) -> None:
    hooks = log_every(4, steps_per_epoch=3)
    Trainer(tmp_path, accumulation=2).train(hooks, 6)
    found = record(tmp_path)
    lines = [line for line in found["log_history"] if "loss" in line]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["loss"] for line in lines] == [1 / step for step in range(1, 7)]
    assert [line["learning_rate"] for line in lines] == pytest.approx([1e-3 * (6 - n) / 6 for n in range(6)], rel=1e-6)
    assert [line["num_tokens"] for line in lines] == [2 * ROWS * 6 * step for step in range(1, 7)]
    assert [line["num_trained_tokens"] for line in lines] == [2 * ROWS * 2 * step for step in range(1, 7)]
    assert all(line["steps_per_second"] > 0 for line in lines)
    assert (found["global_step"], found["max_steps"], found["epoch"], found["num_train_epochs"]) == (6, 6, 2.0, 2)
    assert found["log_history"][-1]["train_loss"] == pytest.approx(np.mean([1 / step for step in range(1, 7)]))
    line, summary = hooks.history
    assert line["step"] == 4, "what is printed stays what was asked for"
    assert summary["train_loss"] == pytest.approx(found["log_history"][-1]["train_loss"])
    assert (summary["epoch"], summary["step"]) == (2.0, 6)
    assert summary["train_steps_per_second"] == pytest.approx(6 / summary["train_runtime"], rel=0.1)


def test_transformers_reads_it_and_the_rest_stands_where_it_has_room(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    Trainer(tmp_path).train(log_every(1), 3)
    state = transformers.TrainerState.load_from_json(str(tmp_path / NAME))
    assert (state.global_step, len(state.log_history)) == (3, 4)
    ours = state.stateful_callbacks[OURS]["attributes"]
    assert ours["versions"]["optax"] and ours["devices"]["count"] >= 1
    assert ours["settings"] == {
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "max_grad_norm": 1.0, "weight_decay": 1e-4,
    }  # fmt: skip
    assert re.fullmatch("[0-9a-f]{64}", ours["port"].get("sha256", "0" * 64))


def test_a_finished_run_that_is_started_again_ends_as_transformers_does(tmp_path: Path) -> None:
    told: list[str] = []

    class Tells(TrainerCallback):
        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            told.append("the end")

    hooks, trainer = log_every(1, callbacks=[Tells()]), Trainer(tmp_path, steps=6)
    hooks.on_train_start(trainer)
    hooks.on_train_end(trainer)
    (line,) = hooks.history
    assert (line["train_loss"], line["step"], told) == (0.0, 6, ["the end"])
    assert record(tmp_path)["log_history"][-1]["train_loss"] == 0.0


@pytest.mark.parametrize("left", ["both", "the run's", "the checkpoint's"])
def test_the_best_so_far_goes_on_in_a_resumed_run(tmp_path: Path, left: str) -> None:
    """As transformers reads it from the checkpoint: a worse one takes neither its place nor its checkpoint."""
    hooks, trainer = log_every(1), Trainer(tmp_path)
    trainer.config.checkpointing_options = SimpleNamespace(preservation_policy=KeepBest(2))
    trainer.train(hooks, 7, save=2, killed=True, evaluated={2: 1.5, 4: 1.8, 6: 1.2})
    if left == "the checkpoint's":
        (tmp_path / NAME).unlink()
    elif left == "the run's":  # ended before there was one of step 6
        (tmp_path / "4" / NAME).unlink()
        found = record(tmp_path)
        found |= {"best_metric": 1.5, "best_global_step": 2, "best_model_checkpoint": f"{tmp_path}/2"}
        (tmp_path / NAME).write_text(json.dumps(found))
    resumed, policy = Trainer(tmp_path, steps=4), KeepBest(2)
    resumed.config.checkpointing_options = SimpleNamespace(preservation_policy=policy)
    hooks = log_every(1)
    hooks.on_train_start(resumed)
    best = hooks.state.best_metric, hooks.state.best_global_step, hooks.state.best_model_checkpoint, policy.step
    assert best == (1.5, 2, f"{tmp_path}/2", 2)
    resumed.checkpoints, resumed.train_steps = [2, 4, 6], 6
    resumed.evaluate(hooks, 1.9)
    assert (policy.step, hooks.state.best_metric) == (2, 1.5)
    assert record(tmp_path)["best_global_step"] == 2


def test_a_resumed_run_goes_on_without_gap_or_double(tmp_path: Path) -> None:
    # Killed right behind the checkpoint of step 4: Tunix has reported 3 steps, and trained 5.
    Trainer(tmp_path).train(log_every(1), 5, save=4, killed=True)
    resumed = Trainer(tmp_path, steps=4)
    resumed.train(log_every(1), 6)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6]
    found = record(tmp_path)
    tokens = [line["num_tokens"] for line in found["log_history"] if "num_tokens" in line]
    assert tokens == [ROWS * 6 * step for step in range(1, 7)]
    assert [run["from_step"] for run in found["stateful_callbacks"][OURS]["attributes"]["runs"]] == [0, 4]
    assert [line["step"] for line in found["log_history"] if "train_runtime" in line] == [6]


def test_each_checkpoint_has_the_record_up_to_its_step(tmp_path: Path) -> None:
    Trainer(tmp_path).train(log_every(1), 6, save=2)
    assert {step: steps(tmp_path / str(step)) for step in (2, 4, 6)} == {n: list(range(1, n + 1)) for n in (2, 4, 6)}
    assert record(tmp_path / "4")["global_step"] == 4
    (tmp_path / NAME).unlink()
    Trainer(tmp_path, steps=4).train(log_every(1), 6)  # as one whose other files were left behind
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_a_new_run_starts_anew_and_rubbish_is_no_history(tmp_path: Path) -> None:
    Trainer(tmp_path).train(log_every(1), 3)
    Trainer(tmp_path).train(log_every(1), 2)
    assert steps(tmp_path) == [1, 2]
    (tmp_path / NAME).write_bytes(b"\x00\xff{")
    Trainer(tmp_path, steps=2).train(log_every(1), 4)
    assert steps(tmp_path) == [3, 4]


def test_without_checkpoints_it_lies_in_the_output_folder(tmp_path: Path) -> None:
    Trainer(None).train(log_every(None, output_dir=tmp_path / "out"), 2)
    assert steps(tmp_path / "out") == [1, 2]
    Trainer(None).train(log_every(1, args=SimpleNamespace(output_dir=str(tmp_path / "args"))), 2)
    assert steps(tmp_path / "args") == [1, 2]
    Trainer(None).train(log_every(1), 2)  # nowhere to write
    assert sorted(path.name for path in tmp_path.iterdir()) == ["args", "out"]


def test_nothing_half_written_is_ever_there(tmp_path: Path) -> None:
    Trainer(tmp_path).train(log_every(1), 3)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_folder_that_cant_be_written_ends_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    hooks = log_every(1)
    Trainer(tmp_path / "file").train(hooks, 4)
    assert len(hooks.history) == 5
    assert capsys.readouterr().out.count("can't be written") == 1


def test_what_cant_be_said_in_json_ends_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = {"of_each": np.arange(2), "by_key": {1: 2.0, "a": np.float32(0.5)}, "set": {3}}
    Trainer(tmp_path).train(log_every(1, metrics=lambda after, until: odd), 2)  # type: ignore[arg-type,return-value]
    line = record(tmp_path)["log_history"][0]
    assert (line["of_each"], line["by_key"], line["set"]) == ([0, 1], {"1": 2.0, "a": 0.5}, "{3}")
    assert "can't" not in capsys.readouterr().out

    circle: dict[str, Any] = {}
    circle["circle"] = circle
    hooks = log_every(None, metrics=lambda after, until: circle)  # type: ignore[arg-type,return-value]
    Trainer(tmp_path).train(hooks, 3)
    Trainer(Path("null\0byte")).train(log_every(1), 3)
    said = capsys.readouterr().out
    assert said.count("can't be written: RecursionError") == 1
    assert said.count("can't be written: ValueError: embedded null byte") == 1


@pytest.mark.parametrize("callbacks", [None, [], {OURS: None}, {OURS: {"attributes": {"runs": 3}}}, "x"])
def test_a_history_of_another_program_is_taken_over(tmp_path: Path, callbacks: Any) -> None:
    Trainer(tmp_path).train(log_every(1), 2)
    odd = {**record(tmp_path), "stateful_callbacks": callbacks}
    odd["log_history"] = [{**line, "num_tokens": None} for line in odd["log_history"]]
    (tmp_path / NAME).write_text(json.dumps(odd))
    Trainer(tmp_path, steps=2).train(log_every(1), 3)
    assert steps(tmp_path) == [1, 2, 3]


def test_the_file_with_most_steps_is_gone_on_in(tmp_path: Path) -> None:
    Trainer(tmp_path).train(log_every(1), 6, save=4)
    early = record(tmp_path)
    early["log_history"] = [line for line in early["log_history"] if line["step"] <= 2]
    (tmp_path / NAME).write_text(json.dumps(early))  # as one whose process was ended before it was written again
    Trainer(tmp_path, steps=4).train(log_every(1), 6)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_what_is_reported_when_the_trainer_closes_is_written(tmp_path: Path) -> None:
    hooks = log_every(1)

    class Stopped(Trainer):
        def close(self) -> None:
            hooks.on_train_step_end(self, self.train_steps, self._prev_buffered_train_metrics.loss)

    trainer = Stopped(tmp_path)
    trainer.train(hooks, 4, killed=True)
    trainer.close()
    assert steps(tmp_path) == [1, 2, 3, 4]


def test_a_checkpoint_that_couldnt_be_written_to_is_tried_again(tmp_path: Path) -> None:
    hooks, blocked = log_every(1), tmp_path / "2" / f".{NAME}.partial"

    class Blocked(Trainer):
        def _prepare_inputs(self, batch: Any) -> Any:
            if self.train_steps == 2:
                blocked.mkdir()
            return batch

        def close(self) -> None:
            blocked.rmdir()

    Blocked(tmp_path).train(hooks, 4, save=2)
    assert (steps(tmp_path / "2"), steps(tmp_path / "4")) == ([1, 2], [1, 2, 3, 4])


def test_tokens_that_differ_from_run_to_run_arent_recorded(tmp_path: Path) -> None:
    class Sampled(Trainer):
        counted_rows = None

    class Odd(Trainer):
        """Trains batches without labels, as those of sampled completions are."""

        def _prepare_inputs(self, batch: Any) -> Any:
            return batch

        def train(self, hooks: Any, until: int, **settings: Any) -> None:
            with pytest.MonkeyPatch.context() as patch:
                whole = batch()
                patch.setattr("tests.runtime.reporting.batch", lambda: {"segment_ids": whole["segment_ids"]})
                super().train(hooks, until, **settings)

    for kind in (Sampled, Odd):
        kind(tmp_path).train(log_every(1), 2)
        lines = record(tmp_path)["log_history"]
        assert steps(tmp_path) == [1, 2] and not any("num_tokens" in line for line in lines)


def test_ktos_rows_of_another_completion_arent_counted(tmp_path: Path) -> None:
    class Preference(Trainer):
        def __init__(self, loss: Any) -> None:
            super().__init__(tmp_path)
            self.counted_rows = loss.counted_rows

    counts = {kto_loss(): ROWS // 2, kto_loss(loss_type="apo_zero_unpaired"): ROWS, orpo_loss(): ROWS}
    for loss, rows in counts.items():
        Preference(loss).train(log_every(1), 1)
        assert record(tmp_path)["log_history"][0]["num_tokens"] == rows * 6


def test_only_the_first_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jax.process_index", lambda: 1)
    Trainer(tmp_path).train(log_every(1), 3)
    assert not list(tmp_path.iterdir())


def test_the_rate_is_the_optimizers_own() -> None:
    shifted = optax.adamw(lambda count: 1e-3 * (count + 1))
    owners = {(owner, name) for owner, name, _ in free_variables(shifted.update)}
    assert ("scale_by_learning_rate", "learning_rate") in owners
    for negative in (optax.scale_by_schedule(lambda count: -1e-3), optax.scale_by_learning_rate(lambda count: 1e-3)):
        trainer = SimpleNamespace(optimizer=SimpleNamespace(tx=optax.chain(optax.scale_by_adam(), negative)))
        rate = learning_rate(trainer)
        assert rate is not None and rate(0) == 1e-3
    lines = rates([{"step": 3, "learning_rate": lambda count: 1e-3 * (count + 1)}])
    assert lines[0]["learning_rate"] == pytest.approx(3e-3)


def test_a_recording_that_is_off_writes_nothing(tmp_path: Path) -> None:
    recording = Recording(tmp_path, None, None, 1)
    recording.off()
    recording.begin(Trainer(tmp_path), TrainerState())
    assert not list(tmp_path.iterdir())


def test_a_state_is_saved_as_transformers_reads_it(tmp_path: Path) -> None:
    state = TrainerState(global_step=4, epoch=2.0, max_steps=4, num_train_epochs=2, is_world_process_zero=True)
    state.log_history.append({"loss": np.float32(0.5), "step": 4})  # type: ignore[dict-item]
    state.save_to_json(json_path=str(tmp_path / "state.json"))
    found = json.loads((tmp_path / "state.json").read_text())
    assert found["log_history"] == [{"loss": 0.5, "step": 4}] and (found["global_step"], found["epoch"]) == (4, 2.0)
    fields = {"best_global_step", "best_metric", "best_model_checkpoint", "max_steps", "num_train_epochs"}
    own = {"epoch", "global_step", "is_local_process_zero", "is_world_process_zero", "log_history"}
    assert set(found) == fields | own  # what the port doesn't know isn't there
