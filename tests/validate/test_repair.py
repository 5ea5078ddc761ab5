"""What a crash says of the made-up rows, and what it doesn't."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from porter.validate.helping import help_for
from porter.validate.observing.settings import Settings
from porter.validate.stand_ins.data import repair
from porter.validate.stand_ins.data.plan import KEPT, LISTS
from porter.validate.stand_ins.data.repair import propose_repair
from porter.validate.stand_ins.data.rows import made_up_rows

from . import forked
from .observed import OBSERVED

KNOWN = {"data": {"columns": {"prompt": "text", "answers": "text"}}}


def proposed(error: Exception, line: str, file: str = "/home/me/train.py") -> dict[str, Any] | None:
    return propose_repair(error, [traceback.FrameSummary(file, 3, "main", line=line)], KNOWN)


@pytest.mark.parametrize(
    ("error", "line", "column", "kind"),
    [
        (KeyError("question"), "row['question']", "question", "text"),
        (
            AttributeError("'str' object has no attribute 'append'"),
            "row['answers'].append(1)",
            "answers",
            {"list": "text"},
        ),
    ],
)
def test_a_row_gets_what_it_lacks(error: Exception, line: str, column: str, kind: Any) -> None:
    found = proposed(error, line)
    assert found is not None and (found["column"], found["kind"]) == (column, kind)


@pytest.mark.parametrize("name", ["input_ids", "chosen_input_ids", "rejected_attention_mask", "chosen_labels"])
def test_what_a_tokenizer_makes_is_no_column(name: str) -> None:
    assert proposed(KeyError(name), f"batch['{name}']") is None


def test_an_error_of_a_library_alone_is_not_the_datas() -> None:
    assert proposed(KeyError("question"), "row['question']", "/x/site-packages/trl/trainer.py") is None


def test_prompts_that_merge_with_their_answers_end_in_a_line() -> None:
    """TRL's CPO and ORPO count a prompt's tokens before either answer, and stop where they are not as many."""
    error = ValueError("zip() argument 2 is longer than argument 1")
    frames = [
        traceback.FrameSummary("/home/me/train.py", 3, "main", line="trainer = CPOTrainer(model)"),
        traceback.FrameSummary(
            "/x/site-packages/trl/cpo_trainer.py", 482, "tokenize_row", line="for a, b in zip(c, d)"
        ),
    ]
    found = propose_repair(error, frames, KNOWN)
    assert found is not None and (found["column"], found["kind"]) == ("prompt", "ended")
    assert propose_repair(error, frames[:1], KNOWN) is None
    (row,) = made_up_rows({"prompt": "ended"}, 1)
    assert row["prompt"].endswith("\n")


@pytest.mark.parametrize(
    ("error", "line", "asked"),
    [
        (TypeError("unsupported operand type(s) for +: 'Column' and 'list'"), "texts = data['prompt'] + more", True),
        (AttributeError("'Column' object has no attribute 'append'"), "texts.append('x')", True),
        (TypeError("Object of type Column is not JSON serializable"), "json.dump(texts, file)", True),
        (ValueError("text input must be of type `str` (single example), `List[str]`"), "tok(data['prompt'])", True),
        (ValueError("text input must be of type `str` (single example), `List[str]`"), "tok(texts)", False),
        (TypeError("unsupported operand type(s) for +: 'int' and 'list'"), "texts = count + more", False),
    ],
)
def test_a_column_that_is_used_as_a_list_is_one(error: Exception, line: str, asked: bool) -> None:
    """Before datasets 4 it was."""
    found = proposed(error, line)
    assert (found is not None and found["column"] == LISTS) is asked


class SFTTrainer:
    def __init__(self, train_dataset: Any) -> None:
        for row in train_dataset:
            row["text"]


class ConstantLengthDataset:
    def __init__(self, rows: Any) -> None:
        self.dataset = rows
        for row in self.dataset:
            row["text"]


@pytest.mark.parametrize("takes", [SFTTrainer, ConstantLengthDataset])
@pytest.mark.parametrize("split", [None, "train"])
def test_a_trainer_that_is_given_all_splits_is_the_scripts_own_end(
    split: str | None, takes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import Dataset, DatasetDict

    rows = DatasetDict(train=Dataset.from_list([{"q": 1}]))
    monkeypatch.setattr(repair, "of_user", lambda file: False)
    with pytest.raises((TypeError, KeyError)) as failed:
        takes(rows if split is None else rows[split])
    said = repair.given_all_splits(failed.value)
    assert (said != "") is (split is None)
    if said:
        assert "on a GPU, too" in help_for(f"TypeError: string indices must be integers\n{said}")


def test_columns_are_lists_where_running_asked_for_it(tmp_path: Path) -> None:
    script = "from datasets import load_dataset\nd = load_dataset('x', split='train')\nprint(len(d['q'] + ['more']))\n"
    (tmp_path / "train.py").write_text(script)
    columns = {LISTS: "list"}
    Settings(work=str(tmp_path), steps=1, sources=(script,), columns=columns).save(tmp_path / "settings.json")
    done = forked.run(OBSERVED, tmp_path, "source", tmp_path / "train.py", cwd=tmp_path)
    assert int(done.stdout) > 1, done.stderr
    assert json.loads((tmp_path / KEPT).read_text())["x"]["columns"] == {"q": "text"}
