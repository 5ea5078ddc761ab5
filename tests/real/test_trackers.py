"""Where a run's metrics go: only to the trackers asked for, and to the script's own W&B run."""

import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.training.trackers import WandbRun, begin_runs, log_beside
from porter.runtime.training.training_settings import metrics_options

pytestmark = pytest.mark.real


def test_only_the_trackers_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert metrics_options("none", tmp_path) is None and metrics_options([], tmp_path) is None
    options = metrics_options(["tensorboard", "mlflow"], tmp_path / "runs")
    assert options is not None and [type(backend).__name__ for backend in options.create_backends()] == [
        "TensorboardBackend"
    ]
    assert "mlflow" in capsys.readouterr().out
    options = metrics_options("wandb", tmp_path, run_name="a run")
    assert options is not None
    (factory,) = options.backend_kwargs["custom_backend"]
    assert factory.keywords == {"name": "a run"}


def test_transformers_5_says_in_the_environment_where_tensorboard_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "asked"))
    options = metrics_options("tensorboard", tmp_path / "runs")
    assert options is not None and options.log_dir == str(tmp_path / "asked")


def test_the_scripts_own_wandb_run_is_logged_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`wandb.init(mode="disabled")` is a run, too: another `wandb.init` would ask for a key."""
    seen: list[Any] = []
    run = SimpleNamespace(log=lambda values, step: seen.append((values, step)), finish=lambda: seen.append("end"))
    given = types.ModuleType("wandb")
    given.run = None  # type: ignore[attr-defined]
    given.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", given)
    options = metrics_options("wandb", tmp_path)
    assert options is not None
    (backend,) = options.create_backends()
    (later,) = options.create_backends()
    backend.log_scalar("/jax/compiled", 0.5)
    given.run = run  # type: ignore[attr-defined] # between the trainer and its training
    backend.log_scalar("/train/loss", 1.5, step=3)
    later.log_scalar("/train/loss", 1.5, step=3)  # JAX tells it of the other training, too
    backend.close()
    assert seen == [({"train/loss": 1.5}, 3)]


def test_a_wandb_run_begins_when_the_training_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login may stand between the trainer and its training, and the variables that say which run it is.

    The run stays open for what the script logs behind the training, as transformers' does, until another begins.
    """
    seen: list[Any] = []
    given = types.ModuleType("wandb")

    def init(**settings: Any) -> None:
        seen.append((settings["project"], settings["name"]))
        given.run = SimpleNamespace(url="")  # type: ignore[attr-defined]

    def finish() -> None:
        seen.append("end")
        given.run = None  # type: ignore[attr-defined]

    given.run, given.init, given.finish = None, init, finish  # type: ignore[attr-defined]
    given.log = lambda values, step: seen.append((values, step))  # type: ignore[attr-defined]
    given.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", given)
    monkeypatch.setattr(WandbRun, "open", None)
    for name in ("WANDB_PROJECT", "WANDB_NAME"):
        monkeypatch.delenv(name, raising=False)
    trainers = []
    for asked in (None, "second"):
        options = metrics_options("wandb", tmp_path, run_name=asked)
        assert options is not None
        trainers.append(SimpleNamespace(metrics_logger=SimpleNamespace(_backends=options.create_backends())))
    assert seen == []
    monkeypatch.setenv("WANDB_PROJECT", "p")
    monkeypatch.setenv("WANDB_NAME", "a name")
    (first,), (second,) = (trainer.metrics_logger._backends for trainer in trainers)
    begin_runs(trainers[0])
    begin_runs(trainers[0])
    first.close()
    assert seen == [("p", "a name")] and given.run is not None
    for backend in (first, second):  # JAX tells both
        backend.log_scalar("/train/loss", 1.5, step=1)
    assert seen[1:] == ["end", ("p", "second"), ({"train/loss": 1.5}, 1)]
    second.close()
    seen.clear()
    log_beside(trainers[0], {"eval_loss": 2.0}, 1)  # its run is over
    assert seen == []
    given.run.step = 4  # the script has logged more
    log_beside(trainers[1], {"eval_loss": 2.0, "epoch": 1.0, "eval_name": "x"}, 1)
    assert seen == [({"eval/loss": 2.0}, 4), ({"train/epoch": 1.0}, 4)]


def test_an_evaluation_behind_the_training_is_written(tmp_path: Path) -> None:
    options = metrics_options("tensorboard", tmp_path)
    assert options is not None
    trainer = SimpleNamespace(metrics_logger=SimpleNamespace(_backends=options.create_backends()))
    (backend,) = trainer.metrics_logger._backends
    backend.close()  # as the training does
    log_beside(trainer, {"test_loss": 2.0, "test_runtime": 1.0}, 7)
    backend.close()  # as the end of the process does
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"test/loss" in written and b"test/runtime" in written


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="would start a W&B run")
def test_tunix_itself_writes_tensorboard_always(tmp_path: Path) -> None:
    # The reason for metrics_options: there is no way to say which built-in backend is wanted.
    from tunix.sft.metrics_logger import MetricsLoggerOptions

    assert len(MetricsLoggerOptions(log_dir=str(tmp_path)).create_backends()) == 1
