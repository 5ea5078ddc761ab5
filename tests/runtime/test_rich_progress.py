"""TRL's RichProgressCallback: a bar of the steps, and the last log line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.callbacks import TrainerControl, TrainerState
from porter.runtime.rich_progress import RichProgressCallback


def test_the_bar_goes_with_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    shown, state, control = RichProgressCallback(), TrainerState(max_steps=4, global_step=1), TrainerControl()
    args: Any = SimpleNamespace()
    shown.on_train_begin(args, state, control)
    [task] = shown._bar.tasks
    assert (task.total, task.completed) == (4, 1)  # of a run that goes on
    state.global_step = 3
    shown.on_step_end(args, state, control)
    shown.on_log(args, state, control, logs={"loss": 2.5})
    assert task.completed == 3
    shown.on_train_end(args, state, control)
    assert "2.5" in capsys.readouterr().out and shown._live is None


def test_another_host_draws_none() -> None:
    shown, state = RichProgressCallback(), TrainerState(is_world_process_zero=False)
    shown.on_train_begin(None, state, TrainerControl())
    shown.on_step_end(None, state, TrainerControl())
    shown.on_train_end(None, state, TrainerControl())
    assert shown._live is None
