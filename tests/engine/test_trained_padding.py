"""Packed rows whose padding is trained, which the port's batches refuse."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
# pip install trl==0.8.6 transformers==4.40.0
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")


def tokenize(row):
    made = tokenizer(row["text"], truncation=True, padding="max_length", max_length=256)
    made["labels"] = made["input_ids"].copy()
    return made


data = load_dataset("json", data_files="d.jsonl", split="train").map(tokenize)
trainer = SFTTrainer(
    model=model, tokenizer=tokenizer, train_dataset=data, packing=True, max_seq_length=256,
    args=TrainingArguments("out"),
)
trainer.train()
"""
LABELS = """    made["labels"] = made["input_ids"].copy()
    return made"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", True),
        (LABELS, """    return {**made, "labels": made["input_ids"].copy()}""", True),
        ("packing=True, ", "", False),
        ('padding="max_length", ', "", False),
        (LABELS, "    return made", False),
        (LABELS, LABELS.replace(".copy()", '.copy()\n    made["labels"][0] = -100'), False),
        (").map(tokenize)", ")\nother = data.map(tokenize)", False),
        ("packing=True, ", "packing=True, data_collator=default_data_collator, ", False),
    ],
)
def test_packed_rows_with_trained_padding_are_an_error(old: str, new: str, said: bool) -> None:
    """It was `ported`, and ended before the first step."""
    assert old in SCRIPT
    text = SCRIPT.replace(old, new).replace("import AutoModel", "import default_data_collator, AutoModel")
    found = [each for each in port(text).findings if "every label is trained" in each.message]
    assert [each.severity for each in found] == ["error"] * said


@pytest.mark.parametrize(("pins", "said"), [("trl==0.14.0", True), ("trl==0.15.2", False)])
def test_a_later_trl_masks_the_padding(pins: str, said: bool) -> None:
    start, stop = SCRIPT.index("    model=model"), SCRIPT.index("trainer.train()")
    made = "    model, train_dataset=data, args=SFTConfig('out', packing=True, max_seq_length=256)\n)\n"
    text = SCRIPT[:start] + made + SCRIPT[stop:]
    text = text.replace("trl==0.8.6 transformers==4.40.0", pins).replace(
        "import SFTTrainer", "import SFTConfig, SFTTrainer"
    )
    assert ("every label is trained" in str(port(text).findings)) is said
