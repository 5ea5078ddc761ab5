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


@pytest.mark.parametrize("given", ["held", "eval_dataset=held"])
def test_no_batches_are_made_of_rows_that_nothing_evaluates(given: str) -> None:
    """Every evaluation is of rows of its own, and the trainer's are left alone."""
    after = f"trainer.train()\nprint(trainer.evaluate({given}))"
    made = "held = load_dataset('some/rows', split='train')"
    text = sft_script(made, trainer=ROWS, config=", per_device_eval_batch_size=2", after=after)
    found = port(text)
    assert "rt.evaluate(trainer, batches.evaluation(held, batch_size=2))" in found.after
    assert "eval_batches" not in found.after
    rows = {row.source: (row.fate, row.reason) for row in found.fields}
    assert rows["SFTTrainer.eval_dataset"][0] == "dropped" and "rows of its own" in rows["SFTTrainer.eval_dataset"][1]
    assert rows["SFTConfig.per_device_eval_batch_size"][0] == "exact"
    both = port(text + "\nprint(trainer.evaluate())\n")
    assert "rt.evaluate(trainer, eval_batches)" in both.after


TOKENIZED = "def tokenize(row):\n    return tokenizer(row['text'])"


@pytest.mark.parametrize(
    ("trl", "made", "said"),
    [
        ("1.6.0", "held = load_dataset('x', split='test')", True),
        ("0.20.0", "held = load_dataset('x')['test'].select(range(8))", True),
        ("1.7.0", "held = load_dataset('x', split='test')", False),
        ("", "held = load_dataset('x', split='test')", False),
        ("0.20.0", "held = load_dataset('x', split='test').map(lambda row: tokenizer(row['text']))", False),
        ("0.20.0", f"{TOKENIZED}\nheld = load_dataset('x', split='test').map(tokenize).shuffle()", False),
        ("0.20.0", "held = load_dataset('x', split='test').map(lambda row: {'text': row['a']})", True),
    ],
)
def test_rows_that_a_release_evaluates_as_they_are(trl: str, made: str, said: bool) -> None:
    """SFTTrainer has an evaluate of its own from 1.7 on; before, the GPU run ended with "No columns in the dataset"."""
    text = sft_script(made, trainer=ROWS, after="trainer.train()\nprint(trainer.evaluate(held))")
    found = port(text, source_trl=trl) if trl else port(text)
    assert "rt.evaluate(trainer, batches.evaluation(held" in found.after
    assert ["prepares no rows here" in each.message for each in found.findings if each.rule == "TP114"] == [True] * said


def test_an_evaluation_at_the_start_is_made_whatever_the_strategy() -> None:
    found = port(sft_script(trainer=ROWS, config=", eval_on_start=True"))
    assert "trainer.train(batches, eval_batches)" in found.after and "eval_on_start=True" in found.after


def test_a_config_that_stays_evaluates_as_little() -> None:
    script = sft_script("import sys", config=", eval_strategy='no'", trainer=ROWS, after=EVALUATES)
    found = port(script.replace('report_to="none"', "report_to=sys.argv[1:]"))
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
