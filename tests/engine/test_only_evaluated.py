"""A trainer that nothing trains: it evaluates a model before or beside the training."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
{imports}
name = "Qwen/Qwen2.5-0.5B"
rows = load_dataset("trl-lib/Capybara", split="train")
args = {args}
before = SFTTrainer(name, args=args, {rows}eval_dataset=rows.select(range(100)))
print(before.evaluate())
{between}
trainer = SFTTrainer(name, args=args, train_dataset=rows, peft_config=LoraConfig(r=8, target_modules=["q_proj"]))
trainer.train()
"""
ARGS = 'SFTConfig(output_dir="out", max_steps=100, report_to="none")'
PARSED = "HfArgumentParser(SFTConfig).parse_args_into_dataclasses()[0]"


def script(*, args: str = ARGS, rows: str = "train_dataset=rows, ", imports: str = "", between: str = "") -> str:
    return SCRIPT.format(args=args, rows=rows, imports=imports, between=between)


def test_it_saves_nothing() -> None:
    """It was a TODO to train it, and had the folder of the training's checkpoints."""
    found = port(script())
    (said,) = [each for each in found.findings if each.rule == "TP111"]
    assert (found.status, said.severity) == ("ported", "info") and "evaluates alone" in said.message
    assert found.after.count('rt.fresh_dir("out")') == 1
    assert found.after.index('rt.fresh_dir("out")') > found.after.index("rt.evaluate(before")


def test_it_saves_nothing_that_its_arguments_ask_for() -> None:
    found = port(script(args=PARSED, imports="from transformers import HfArgumentParser\n"))
    assert found.status == "ported"
    assert found.after.count("saves=False") == 1
    assert found.after.index("saves=False") < found.after.index("rt.evaluate(before")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"between": "run(before)"}, "not found beside it"),
        ({"between": "started = [before]"}, "not found beside it"),
        ({"rows": ""}, "ends without one"),
    ],
)
def test_one_that_may_be_trained_or_lacks_rows_stays_a_todo(given: dict[str, str], says: str) -> None:
    found = port(script(**given, imports="from runs import run\n"))
    assert found.status == "partial"
    assert any(says in each.message for each in found.findings if each.rule == "TP111" and each.severity == "error")


@pytest.mark.parametrize(("folder", "ends"), [("out/checkpoint-100", True), ("other/checkpoint-100", False)])
def test_a_checkpoint_of_the_training_before_is_none_that_it_can_load(folder: str, ends: bool) -> None:
    training = "first = SFTTrainer(name, args=args, train_dataset=rows)\nfirst.train()\n"
    load = f'model = AutoModelForCausalLM.from_pretrained("{folder}")\n'
    text = script(imports="from transformers import AutoModelForCausalLM\n").partition("trainer = ")[0]
    text = text.replace("before = SFTTrainer(name", f"{training}{load}before = SFTTrainer(model")
    found = port(text)
    said = [each.message for each in found.findings if each.rule == "TP314" and each.severity == "error"]
    assert [f"(\"{folder}\"): the port's checkpoints are Orbax's" in each for each in said] == [True] * ends
    assert (found.status == "partial") is ends
