"""What a crash says of the made-up rows, and what it doesn't."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from porter.validate.stand_ins.repair import propose_repair

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
