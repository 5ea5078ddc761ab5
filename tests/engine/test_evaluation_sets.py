"""Several evaluation sets by their names."""

import pytest

from .porting import port, sft_script

SETS = ', eval_dataset={"seen": held_out, "new": others}'
BEFORE = 'held_out, others = load_dataset("some/seen", split="test"), load_dataset("some/new", split="test")'
BEST = ', eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True'


def test_each_set_is_evaluated() -> None:
    found = port(sft_script(BEFORE, config=', eval_strategy="epoch"', trainer=SETS))
    assert found.status == "ported" and "rt.MetricsTrainer(" in found.after
    assert 'batches.evaluation({"seen": held_out, "new": others}' in found.after


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (', metric_for_best_model="eval_new_loss"', ""),
        (', metric_for_best_model="seen_loss"', ""),
        (', metric_for_best_model="eval_old_loss"', "computes no metric but the loss"),
        ("", 'Set metric_for_best_model="eval_seen_loss"'),
        (', metric_for_best_model="loss"', "the GPU run ends at its first evaluation"),
    ],
)
def test_the_best_is_told_by_the_loss_of_one_of_them(metric: str, said: str) -> None:
    found = port(sft_script(BEFORE, config=BEST + metric, trainer=SETS))
    assert (found.status == "ported") == (not said)
    assert not said or said in found.after or said in str(found.recipe.findings)


def test_the_best_of_sets_that_the_run_names_is_told_by_a_loss() -> None:
    sets = 'import sys\nsets = {name: load_dataset("x", split=name) for name in sys.argv[1:]}'
    config = f'{BEST}, metric_for_best_model="eval_new_loss"'
    found = port(sft_script(sets, config=config, trainer=", eval_dataset=sets"))
    assert found.status == "ported" and 'metric_for_best_model="eval_new_loss"' in found.after


@pytest.mark.parametrize(("given", "counted"), [(SETS, False), (", eval_dataset=held_out", True)])
def test_batches_of_one_set_are_counted(given: str, counted: bool) -> None:
    after = "trainer.train()\nprint(len(trainer.get_eval_dataloader()))"
    found = port(sft_script(BEFORE, config=', eval_strategy="epoch"', trainer=given, after=after))
    assert ("print(eval_batches.gpu_batches)" in found.after) is counted is (found.status == "ported")


def test_sets_that_evaluate_is_given() -> None:
    after = 'trainer.train()\nprint(trainer.evaluate({"seen": held_out, "new": others}))'
    found = port(sft_script(BEFORE, after=after))
    assert 'rt.evaluate(trainer, batches.evaluation({"seen": held_out, "new": others}, batch_size=8))' in found.after
    assert found.status == "ported" and "PeftTrainer(" in found.after
    older = (
        sft_script(BEFORE, after=after)
        .replace("Qwen/Qwen3-0.6B", "mistralai/Mistral-7B-v0.1")
        .replace("dtype", "torch_dtype")
    )
    older = older.replace("SFTConfig,", "TrainingArguments,").replace("SFTConfig", "TrainingArguments")
    older = older.replace(
        "from trl import TrainingArguments,", "from transformers import TrainingArguments\nfrom trl import"
    )
    found = port(older.replace("processing_class", "tokenizer"), source_trl="0.7.6")
    assert "ends the GPU run before transformers 4.37" in str(found.recipe.findings)


def test_pairs_are_evaluated_as_one_set() -> None:
    script = sft_script(BEFORE, config=', eval_strategy="epoch"', trainer=SETS).replace("SFT", "DPO")
    found = port(script)
    assert "the port of this trainer evaluates one set" in str(found.recipe.findings) and found.status == "partial"


HELD = """\
def main(do_eval=True):
    held = None
    if do_eval:
        held = rows["test"]
    trainer = SFTTrainer(
        "Qwen/Qwen3-0.6B",
        args=SFTConfig("out", eval_strategy="steps", eval_steps=5),
        train_dataset=rows["train"],
        eval_dataset=held,
    )
    trainer.train()
    if TEST:
        BODY


main()
"""


@pytest.mark.parametrize(
    ("test", "body", "asked"),
    [
        ("held is not None", "print(trainer.evaluate(held))", False),
        ("do_eval and held is not None", "for n in (1, 2):\n            print(n, trainer.evaluate(held))", False),
        ("held", "print(trainer.evaluate(held))", False),
        ("do_eval", "print(trainer.evaluate(held) if held != None else 0)", False),
        ("do_eval", "print(trainer.evaluate(held))", True),
        ("do_eval or held is not None", "print(trainer.evaluate(held))", True),
        ("held is None", "print(trainer.evaluate(held))", True),
        ("held", "held = None\n        print(trainer.evaluate(held))", True),
    ],
)
def test_a_set_below_a_condition_that_it_is_there_is_not_asked_again(test: str, body: str, asked: bool) -> None:
    head = (
        "from datasets import load_dataset\nfrom trl import SFTConfig, SFTTrainer\n\nrows = load_dataset('a/b')\n\n\n"
    )
    found = port(head + HELD.replace("TEST", test).replace("BODY", body))
    own = "batches.evaluation(held, batch_size=8)"
    assert own in found.after.replace("\n", "")
    assert ("eval_batches if held is None else" in found.after) is asked
