"""Callbacks beside the real Trainer's: when they are called, with which step and weights, where they stop it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from porter.runtime.callbacks import TrainerCallback

from .regression import (
    BATCHES,
    Line,
    run_transformers,
    run_tunix,
)

pytestmark = pytest.mark.real


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
