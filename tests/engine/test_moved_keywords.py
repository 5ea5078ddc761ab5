"""Keywords of the config that Unsloth's trainers are given beside `args=`."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
{pin}from unsloth import FastLanguageModel
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-0.6B", max_seq_length=512)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
args = {made}
trainer = SFTTrainer(
    model=model,
    tokenizer=tokenizer,
    train_dataset=load_dataset("some/rows", split="train"),
    args=args,
    {given},
)
trainer.train()
"""
PLAIN = 'TrainingArguments("out", logging_steps=5, learning_rate=1e-4, report_to="none")'
PIN = '# /// script\n# dependencies = ["unsloth=={}"]\n# ///\n'
LOST = "SFTTrainer.{} beside the arguments; it has no effect in the port either."


def ported(given: str, pin: str = "", made: str = PLAIN) -> Port:
    return port(SCRIPT.format(given=given, pin=PIN.format(pin) if pin else "", made=made))


@pytest.mark.parametrize("made", [PLAIN, PLAIN.replace("TrainingArguments", "SFTConfig")])
@pytest.mark.parametrize("given", ["logging_steps=5", "learning_rate=args.learning_rate", "learning_rate=1e-4"])
def test_what_the_arguments_say_as_well(given: str, made: str) -> None:
    found = ported(given, made=made)
    assert found.status == "ported"
    assert not any("no effect in the port" in each.message for each in found.findings)


@pytest.mark.parametrize("given", ["logging_steps=200", 'report_to="wandb"', 'run_name="mine"'])
def test_what_only_logs_is_lost_and_said(given: str) -> None:
    found = ported(given)
    assert found.status == "ported"
    assert f"Unsloth from 2025.5.8 on loses {LOST.format(given)}" in [each.message for each in found.findings]


def test_what_changes_the_training_hangs_on_the_release() -> None:
    unnamed, newer, older = (ported("learning_rate=2e-5", pin) for pin in ("", "2025.8.9", "2025.3.19"))
    assert (unnamed.status, newer.status, older.status) == ("partial", "ported", "ported")
    assert f"Unsloth 2025.8.9 loses {LOST.format('learning_rate=2e-5')}" in [each.message for each in newer.findings]
    assert "1e-4" in newer.after and "2e-5" not in newer.after
    assert "2e-5" in older.after and "1e-4" not in older.after
    said = "Unsloth 2025.3.19 takes SFTTrainer.learning_rate=2e-5 over what the arguments say, and so does the port."
    assert said in [each.message for each in older.findings]


def test_what_no_config_has_is_lost_with_every_release() -> None:
    found = ported("no_such_keyword=1")
    (said,) = [each for each in found.findings if "no_such_keyword" in each.message]
    assert found.status == "ported" and said.severity == "warning" and "no_such_keyword" not in found.after
