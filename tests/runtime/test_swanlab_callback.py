"""SwanLab's callback: when its run begins, and what it is sent by which names."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from porter.runtime.callbacks import TrainerControl, TrainerState
from porter.runtime.swanlab_callback import SwanLabCallback


class SwanLab(SimpleNamespace):
    """What the callback calls of SwanLab; from 0.7 on `get_run` raises where no run has begun."""

    def __init__(self, raises: bool) -> None:
        super().__init__(begun=[], sent=[], config={}, raises=raises)

    def get_run(self) -> Any:
        if not self.begun and self.raises:
            raise RuntimeError("no run")
        return self.begun[-1] if self.begun else None

    def init(self, **settings: Any) -> None:
        self.begun.append(settings)

    def log(self, values: dict[str, Any], step: int) -> None:
        self.sent.append((step, values))


@pytest.fixture(params=[False, True])
def swanlab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SwanLab:
    found = SwanLab(request.param)
    monkeypatch.setitem(sys.modules, "swanlab", found)
    monkeypatch.delenv("SWANLAB_PROJECT", raising=False)
    return found


def train(callback: SwanLabCallback, args: Any = None, **of_state: Any) -> None:
    state, control = TrainerState(global_step=3, is_world_process_zero=True), TrainerControl()
    for name, value in of_state.items():
        setattr(state, name, value)
    callback.on_train_begin(args, state, control)
    callback.on_log(args, state, control, logs={"loss": 2.0, "eval_loss": 3.0, "train_loss": 1.0, "epoch": 0.5})


def test_the_lines_have_the_names_of_swanlabs_own_callback(swanlab: SwanLab) -> None:
    train(SwanLabCallback("answers", experiment_name="first", mode=None), SimpleNamespace(to_dict=lambda: {"seed": 1}))
    assert swanlab.begun == [{"project": "answers", "experiment_name": "first"}]
    assert swanlab.config == {"seed": 1}
    curves = {"train/loss": 2.0, "eval/loss": 3.0, "train/epoch": 0.5, "train/global_step": 3}
    assert swanlab.sent == [(3, {"single_value/train_loss": 1.0}), (3, curves)]


def test_the_environment_says_the_project_when_training_begins(
    swanlab: SwanLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = SwanLabCallback(experiment_name="first")
    monkeypatch.setenv("SWANLAB_PROJECT", "later")
    train(callback)
    assert swanlab.begun == [{"project": "later", "experiment_name": "first"}]


def test_a_run_of_the_scripts_own_goes_on(swanlab: SwanLab) -> None:
    swanlab.init(project="own")
    train(SwanLabCallback("answers"))
    assert swanlab.begun == [{"project": "own"}] and len(swanlab.sent) == 2


def test_one_process_sends(swanlab: SwanLab) -> None:
    train(SwanLabCallback("answers"), is_world_process_zero=False)
    assert not swanlab.begun and not swanlab.sent
