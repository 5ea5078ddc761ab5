"""Collators that an SFTTrainer is given."""

import pytest

from .porting import port

SCRIPT = """from datasets import load_dataset
from transformers import AutoTokenizer, DataCollatorForLanguageModeling
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
{before}trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out"{arguments}),
    train_dataset=load_dataset("x", split="train"),
    processing_class=tokenizer,
    data_collator={collator},
)
trainer.train()
"""
MADE = "DataCollatorForLanguageModeling(tokenizer, mlm=False)"


@pytest.mark.parametrize(
    ("before", "collator", "written"),
    [
        ("", MADE, "label_mask=rt.IgnorePadding(tokenizer, mlm=False),"),
        (f"collator = {MADE}\n", "collator", "collator = rt.IgnorePadding(tokenizer, mlm=False)\n"),
    ],
)
def test_transformers_collator_masks_padding_alone(before: str, collator: str, written: str) -> None:
    found = port(SCRIPT.format(before=before, collator=collator, arguments=""))
    assert found.status == "ported" and written in found.after and "DataCollator" not in found.after
    assert f"label_mask={'collator' if before else 'rt.IgnorePadding'}" in found.after


@pytest.mark.parametrize(
    ("collator", "arguments"),
    [
        ("DataCollatorForLanguageModeling(tokenizer)", ""),
        ("DataCollatorForLanguageModeling(tokenizer, mlm=False, seed=3)", ""),
        (MADE, ", packing=True"),
        (MADE, ", assistant_only_loss=True"),
    ],
)
def test_what_it_changes_besides_is_left_to_a_person(collator: str, arguments: str) -> None:
    found = port(SCRIPT.format(before="", collator=collator, arguments=arguments))
    assert found.status == "partial" and "IgnorePadding" not in found.after
