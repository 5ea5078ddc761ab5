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


EVALUATES = "trainer.train()\nprint(trainer.evaluate())"


def test_training_gets_nothing_to_evaluate_where_the_script_evaluates_behind_it() -> None:
    found = port(sft_script(trainer=ROWS, after=EVALUATES))
    assert "    trainer.train(batches)\n" in found.after
    assert "print(rt.evaluate(trainer, eval_batches))" in found.after
    asked = port(sft_script(trainer=ROWS, config=", eval_strategy='no', eval_steps=5", after=EVALUATES))
    assert "    trainer.train(batches)\n" in asked.after and "eval_every_n_steps=batches.steps" in asked.after
    [row] = [row for row in asked.fields if row.source == "SFTConfig.eval_steps"]
    assert (row.fate, row.reason) == ("dropped", 'eval_strategy is "no"')


def test_a_config_that_stays_evaluates_as_little() -> None:
    found = port(
        sft_script("import sys", config=", report_to=sys.argv[1:], eval_strategy='no'", trainer=ROWS, after=EVALUATES)
    )
    assert "    trainer.train(batches)\n" in found.after and "rt.evaluate(trainer, eval_batches)" in found.after


@pytest.mark.parametrize("config", [", eval_on_start=True", ", eval_strategy='steps'", ", eval_on_start=CFG['start']"])
def test_training_evaluates_what_it_is_asked_for(config: str) -> None:
    found = port(sft_script("CFG = {}", trainer=ROWS, config=config, after=EVALUATES))
    assert "trainer.train(batches, eval_batches)" in found.after


def test_early_stopping_compares_by_what_it_compares_by_anyway() -> None:
    asks = ", eval_strategy='steps', eval_steps=2, metric_for_best_model='eval_loss', greater_is_better=False"
    more = ROWS + ", callbacks=[EarlyStoppingCallback(3)]"
    found = port(sft_script(imports="from transformers import EarlyStoppingCallback", config=asks, trainer=more))
    rows = {row.source: row.fate for row in found.fields}
    assert rows["SFTConfig.metric_for_best_model"] == rows["SFTConfig.greater_is_better"] == "exact"
    assert not [each for each in found.findings if "no line of the port" in each.message]
