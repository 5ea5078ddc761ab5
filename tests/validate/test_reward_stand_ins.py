"""Reward functions that end on made-up rows: what stands in for them, and where."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from porter.runtime.rollouts.rewards import Rewards, TrainerState
from porter.validate.comparing.trace import Trace
from porter.validate.made_up_again import repaired
from porter.validate.observing.remedies import REWARDS, ended_in_rewards
from porter.validate.observing.settings import Settings
from porter.validate.running.processes import RunFailed
from porter.validate.stand_ins.data.repair import REPAIR
from porter.validate.stand_ins.sampled.rewards import FILE, of_port, scores, stand_in


def reads_a_board(completions: list[str], board: list[str], **kwargs: Any) -> list[float]:
    return [float(rows.index("1")) for rows in board]


def test_a_function_answers_until_it_ends_and_a_number_of_the_text_then() -> None:
    told: list[str] = []
    function = stand_in(functools.partial(reads_a_board), told.append)
    assert function(completions=["a", "b"], board=["01", "10"]) == [1.0, 0.0]
    assert function(completions=["a", "b"], board=["01", "no"]) == scores(["a", "b"])
    assert function(completions=["a", "b"], board=["01", "10"]) == scores(["a", "b"])
    assert function(["q", "q"], ["a", "b"], board=["01", "10"]) == scores(["a", "b"])
    assert told == ["reads_a_board"]
    assert len({*scores([[{"role": "assistant", "content": f"{number}"}] for number in range(20)])}) > 2


def test_what_is_no_function_stays() -> None:
    async def later(completions: list[str]) -> list[float]:
        return [0.0]

    for reward in ("org/reward-model", later):
        assert stand_in(reward, lambda name: None) is reward


def test_the_port_stands_in_for_those_that_ended_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rewards, "__init__", Rewards.__init__)

    def other(completions: list[str], **kwargs: Any) -> list[float]:
        raise ValueError("not in the source")

    def rewarded(function: Any) -> Any:
        return Rewards(function, None, ["board"])(["q"], ["a"], [[1]], {"board": ["no"]}, TrainerState(global_step=0))

    of_port("porter.runtime", str(tmp_path))
    with pytest.raises(ValueError, match="substring not found"):
        rewarded(reads_a_board)
    (tmp_path / FILE).write_text(json.dumps(["reads_a_board"]))
    of_port("porter.runtime", str(tmp_path))
    assert rewarded(reads_a_board).tolist() == [scores(["a"])]
    with pytest.raises(ValueError, match="not in the source"):
        rewarded(other)


IN_REWARDS = '  File "grpo_trainer.py", line 626, in _prepare\n    x = reward_func(**given)\nIndexError: index 0'


@pytest.mark.parametrize(
    ("said", "helps", "remedies"),
    [
        (IN_REWARDS, True, ["", "", REWARDS]),
        (IN_REWARDS, False, ["", "", REWARDS]),
        (IN_REWARDS.replace("reward_func", "model"), True, ["", ""]),
    ],
)
def test_a_source_runs_again_once_no_column_helps_its_rewards(
    said: str, helps: bool, remedies: list[str], tmp_path: Path
) -> None:
    tried: list[str] = []

    def run(settings: Settings) -> Trace:
        tried.append(settings.remedy)
        if settings.remedy == REWARDS and helps:
            return Trace()
        raise RunFailed("source", "crashed", said, folder=tmp_path)

    asked = tmp_path / REPAIR
    asked.write_text(json.dumps({"column": "board", "kind": "text", "why": "a column"}))
    ends = helps and REWARDS in remedies
    with contextlib.nullcontext() if ends else pytest.raises(RunFailed):
        repaired(run, Settings(work=str(tmp_path), steps=1), lambda line: None)
    assert tried == remedies


@pytest.mark.parametrize(("called", "inside"), [("reward_func(prompts=prompts)", True), ("model(**inputs)", False)])
def test_a_crash_within_a_reward_is_told_by_who_called_it(called: str, inside: bool) -> None:
    said = f'  File "trl/trainer/grpo_trainer.py", line 626, in _prepare_inputs\n    output = {called}\n'
    assert ended_in_rewards(said + '  File "Reward.py", line 58, in correct\nIndexError: 0') is inside
