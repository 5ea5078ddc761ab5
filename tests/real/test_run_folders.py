"""The folders that a run leaves and resumes, beside the real Trainer's."""

from pathlib import Path

import numpy as np
import pytest

from porter.runtime.saving import checkpoints
from porter.runtime.saving.checkpoints import fresh_dir, resume_dir

from .regression import (
    BATCHES,
    TorchLine,
    X,
    Y,
    arguments,
    run_tunix,
)

pytestmark = pytest.mark.real


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
