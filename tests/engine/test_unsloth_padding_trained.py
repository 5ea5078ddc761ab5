"""Padding that is trained without an attention mask, as Unsloth's models do."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen2.5-0.5B-Instruct", max_seq_length=2048)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=16)


def tokenize(row):
    made = tokenizer(row["instruction"], truncation=True, padding="max_length", max_length=2048)
    made["labels"] = made["input_ids"].copy()
    return made


data = load_dataset("yahma/alpaca-cleaned", split="train").map(tokenize)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("row", "row", True),
        ("Qwen2.5-0.5B-Instruct", "Llama-3.2-1B", True),
        ("FastLanguageModel", "FastModel", False),
        ('padding="max_length", ', "", False),
        ("    return made", "    made['labels'][0] = -100\n    return made", False),
        ("Qwen2.5-0.5B-Instruct", "gemma-2-2b", False),
    ],
)
def test_trained_padding_that_sees_padding_is_said(old: str, new: str, said: bool) -> None:
    assert old in SCRIPT
    found = [each for each in port(SCRIPT.replace(old, new)).findings if "The padding is trained" in each.message]
    assert [each.severity for each in found] == ["warning"] * said
