"""Made-up rows and values: the same twice, in the form of their columns or of a dataset that is known."""

from __future__ import annotations

import json

from porter.validate.stand_ins.data.known import known_dataset
from porter.validate.stand_ins.data.rows import made_up_rows, made_up_value


def test_a_column_changes_no_other_and_one_row_in_eight_is_cut() -> None:
    alone = made_up_rows({"a": "text"}, 64, limit=300)
    with_more = made_up_rows({"b": "messages", "a": "text"}, 64, limit=300)

    assert [row["a"] for row in alone] == [row["a"] for row in with_more]
    assert sum(len(row["a"].split()) > 300 for row in alone) == 8
    assert max(len(row["a"].split()) for row in made_up_rows({"a": "text"}, 64, limit=2048)) < 100
    assert len({row["a"] for row in alone}) == 64


def test_pairs_share_their_prompt_and_turns_alternate() -> None:
    for row in made_up_rows({"prompt": "text", "chosen": "messages", "rejected": "messages"}, 32):
        assert row["chosen"][:-1] == row["rejected"][:-1] and row["chosen"][-1] != row["rejected"][-1]
        assert [turn["role"] for turn in row["chosen"]][:2] == ["user", "assistant"]
        assert len(row["chosen"]) % 2 == 0


def test_texts_of_known_forms() -> None:
    assert "\n#### " in made_up_value("answer", "gsm8k", 3)
    assert made_up_value("text", "guanaco", 3).startswith("### Human: ")
    chosen, rejected = (made_up_value(name, "hh", 5) for name in ("chosen", "rejected"))
    end = chosen.rindex("\n\nAssistant: ")
    assert chosen[:end] == rejected[:end] and chosen != rejected
    assert json.loads(made_up_value("tools", {"json": {"list": {"fields": {"name": "text"}}}}, 0))[0]["name"]
    assert made_up_value("said", {"begins": ["yes", "no"]}, 3).startswith("no. ")
    assert made_up_value("made", {"marked": ["</think>"]}, 0).split("</think>")[1].strip()
    assert {made_up_value("label", {"one of": [0, 1]}, index) for index in range(9)} == {0, 1}


def test_the_table_of_known_datasets() -> None:
    found = known_dataset("HuggingFaceH4/UltraChat_200k")
    assert found is not None and found[0]["messages"] == "messages" and found[1][0] == "train_sft"
    assert known_dataset("nobody/nowhere") is None


def test_pairs_that_have_their_prompt_beside_them() -> None:
    found = known_dataset("trl-lib/hh-rlhf-helpful-base")
    assert found is not None
    for row in made_up_rows(found[0], 8):
        assert row["prompt"][-1]["role"] == "user"
        assert [[turn["role"] for turn in row[name]] for name in ("chosen", "rejected")] == [["assistant"]] * 2
        assert row["chosen"] != row["rejected"]


def test_prompts_of_humaneval_hold_a_docstring() -> None:
    found = known_dataset("openai_humaneval")
    assert found is not None
    assert all(row["prompt"].count('"""') == 2 for row in made_up_rows(found[0], 8))
