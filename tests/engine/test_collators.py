"""The tokenizer that transformers' Trainer saves: its own, or its collator's."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """{pin}
from datasets import load_from_disk
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments

class Own:
    def __init__(self, {own}):
        self.{own} = {own}
    def __call__(self, rows):
        return rows

tok = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
collate = {collator}
trainer = Trainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"),
    args=TrainingArguments("out"),
    train_dataset=load_from_disk("rows"),
    data_collator=collate,{more}
)
trainer.train()
trainer.save_model("out/final")
"""
OF_LIBRARY = "DataCollatorForLanguageModeling(tok, mlm=False)"


@pytest.mark.parametrize(
    ("collator", "own", "pin", "more", "saved"),
    [
        (OF_LIBRARY, "tokenizer", "", "", "tok"),
        (OF_LIBRARY, "tokenizer", "# pip install transformers==4.50.0", "", "tok"),
        (OF_LIBRARY, "tokenizer", "# pip install transformers==4.49.0", "", ""),
        (OF_LIBRARY, "other", "", "\n    processing_class=AutoTokenizer.from_pretrained('x'),", "tokenizer"),
        ("Own(tok)", "tokenizer", "", "", "tok"),
        ("Own(tok)", "other", "", "", ""),
    ],
)
def test_a_collators_tokenizer_is_saved(collator: str, own: str, pin: str, more: str, saved: str) -> None:
    ported = port(SCRIPT.format(pin=pin, collator=collator, own=own, more=more))
    beside = f", tokenizer={saved}" if saved else ""
    assert f'rt.save_model(model, "out/final"{beside})' in ported.after, ported.after
