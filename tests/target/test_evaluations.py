"""When a port evaluates, and what of that is logged."""

from __future__ import annotations

import pytest

from tests.engine.porting import port, sft_script

ROWS = ', eval_dataset=load_dataset("some/rows", split="test")'


@pytest.mark.parametrize("strategy", ["'steps'", "'epoch'", "CFG['eval']"])
def test_every_strategy_is_the_trainers(strategy: str) -> None:
    text = sft_script("CFG = {}", config=f", eval_strategy={strategy}, eval_steps=2", trainer=ROWS)
    found = port(text)
    [row] = [row for row in found.fields if row.source == "SFTConfig.eval_strategy"]
    assert row.fate == "exact" and "before the first step" in row.reason
    assert "eval_on_start" not in found.after


@pytest.mark.parametrize(("value", "written"), [("True", True), ("CFG['start']", True), ("False", False)])
def test_the_evaluation_before_the_first_step_is_logged_where_it_was_asked_for(value: str, written: bool) -> None:
    text = sft_script("CFG = {}", config=f", eval_strategy='epoch', eval_on_start={value}", trainer=ROWS)
    found = port(text)
    assert (f"eval_on_start={value}" in found.after) == written
    assert [row.fate for row in found.fields if row.source == "SFTConfig.eval_on_start"] == ["exact"]
