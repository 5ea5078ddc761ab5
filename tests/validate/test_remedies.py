"""A source that ends by itself is run once more with what lets it be compared, and that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from porter.validate.made_up_again import repaired
from porter.validate.observing.remedies import INPUT_GRADIENTS, MIXED_ROWS, SHORT_ROWS, remedy_for, said_of
from porter.validate.observing.settings import Settings
from porter.validate.running.processes import UNSTARTED, RunFailed
from porter.validate.stand_ins.data.plan import KEPT, DataPlan

from . import forked

NO_GRADIENT = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
SHAPES = "ValueError: Expected input batch_size (649) to match target batch_size (1490)."
CUT = 'tokens = tokenizer(row["text"], truncation=True, max_length=512)'


@pytest.mark.parametrize(
    ("error", "limit", "remedy"),
    [
        (NO_GRADIENT, None, INPUT_GRADIENTS),
        (SHAPES, 650, SHORT_ROWS),
        ("RuntimeError: The size of tensor a (9) must match the size of tensor b (7) at dimension 1", 650, SHORT_ROWS),
        (SHAPES, None, ""),  # no row is cut: its length isn't to blame
        ("KeyError: 'text'", 650, ""),
        ("ValueError: no rows", 650, ""),
    ],
)
def test_what_a_crash_asks_for(error: str, limit: int | None, remedy: str, tmp_path: Path) -> None:
    (tmp_path / KEPT).write_text(json.dumps({"x": {"columns": {"text": "text"}, "limit": limit}}))
    assert remedy_for(error, tmp_path / KEPT) == remedy


def test_rows_with_a_text_and_turns_are_texts_where_trl_took_them_for_a_conversation(tmp_path: Path) -> None:
    error = "TypeError: string indices must be integers, not 'str'"
    frame = '  File "/x/site-packages/trl/data_utils.py", line 94, in apply_chat_template\n'
    assert remedy_for(error, tmp_path / KEPT, f"{frame}{error}") == MIXED_ROWS
    assert remedy_for(error, tmp_path / KEPT, f"train.py\n{error}") == ""

    done = forked.run(MIXED, cwd=tmp_path)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr


MIXED = """
from trl.trainer import sft_trainer
from porter.validate.torch_side.mixed_rows import take_texts
turns = [{"role": "user", "content": "x"}]
take_texts()
from trl import data_utils
print(data_utils.is_conversational({"prompt": "x", "chosen": turns, "rejected": turns}))
print(data_utils.is_conversational({"chosen": turns, "rejected": turns}))
print(sft_trainer.is_conversational is data_utils.is_conversational)
"""


def test_a_source_runs_once_more_with_a_remedy_and_no_third_time(tmp_path: Path) -> None:
    runs: list[str] = []

    def run(settings: Settings) -> Any:
        runs.append(settings.remedy)
        (tmp_path / KEPT).write_text("{}")
        raise RunFailed("source", "crashed (exit status 1)", NO_GRADIENT, folder=tmp_path)

    said: list[str] = []
    with pytest.raises(RunFailed):
        repaired(run, Settings(work=str(tmp_path), steps=1), said.append)
    assert runs == ["", INPUT_GRADIENTS]
    assert said == [f"source: ended with {NO_GRADIENT}: once more with {INPUT_GRADIENTS}"]


def test_a_source_that_trained_nothing_runs_once_more_as_its_project_shows_it(tmp_path: Path) -> None:
    runs: list[bool] = []

    def run(settings: Settings) -> Any:
        runs.append(settings.as_shown)
        raise RunFailed("source", UNSTARTED, "", folder=tmp_path)

    for is_shown in (False, True):
        with pytest.raises(RunFailed, match="no trainer was started"):
            repaired(run, Settings(work=str(tmp_path)), lambda line: None, is_shown=is_shown)
    assert runs == [False, False, True]


def test_short_rows_are_within_the_scripts_limit_and_the_verdict_says_why(tmp_path: Path) -> None:
    settings = Settings(work=str(tmp_path), sources=(CUT,))
    assert DataPlan(settings, "source", []).limit == 512
    short = Settings(work=str(tmp_path), sources=(CUT,), remedy=SHORT_ROWS, ended_with=SHAPES)
    plan = DataPlan(short, "source", [])
    assert plan.limit is None
    assert plan.limit_note == said_of(SHORT_ROWS, SHAPES, 512) and "512 tokens (ValueError: Expected" in plan.limit_note
