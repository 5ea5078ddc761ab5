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


IN_A_CLASS = """\
from datasets import load_from_disk
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from transformers import Trainer, TrainingArguments

class Run:
    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")

    def make(self):
        collate = DataCollatorForLanguageModeling({tokenizer}, mlm=False)
        rows, args = load_from_disk("rows"), TrainingArguments("out")
        self.trainer = Trainer(self.model, args, train_dataset=rows, data_collator=collate)

    def train(self):
        self.trainer.train()
        self.trainer.save_model("out/final")

run = Run()
run.make()
run.train()
"""


@pytest.mark.parametrize(("tokenizer", "saved"), [("self.tokenizer", ", tokenizer=self.tokenizer"), ("made", "")])
def test_a_tokenizer_of_the_object_is_saved_by_another_method(tokenizer: str, saved: str) -> None:
    text = IN_A_CLASS.format(tokenizer=tokenizer)
    if tokenizer == "made":
        text = text.replace("collate =", 'made = AutoTokenizer.from_pretrained("x")\n        collate =')
    assert f'rt.save_model(self.model, "out/final"{saved})' in port(text).after


UNLABELLED = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
def tokenize(batch):
    tokens = tokenizer(batch["text"], truncation=True, max_length=64)
    return tokens
rows = load_dataset("x")
rows = rows.map(tokenize, batched=True).shuffle(seed=1)
collator = DataCollatorWithPadding(tokenizer)
trainer = Trainer(model=model, args=TrainingArguments(output_dir="out"), train_dataset=rows["train"])
trainer.train()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('rows["train"])', 'rows["train"], data_collator=collator)'),
        ("rows = rows.map(tokenize, batched=True)", 'rows = rows.map(lambda row: tokenizer(row["text"]))'),
        ('rows["train"])', "made(rows))\ndef made(rows):\n    return rows.map(tokenize)"),
    ],
)
def test_rows_without_labels_end_the_source_and_the_port(old: str, new: str) -> None:
    found = [each for each in port(UNLABELLED.replace(old, new, 1)).findings if "have no labels" in each.message]

    assert [(each.severity, "mlm=False" in each.fix) for each in found] == [("error", True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return tokens", '    tokens["labels"] = tokens["input_ids"]\n    return tokens'),
        ("max_length=64", 'text_target=batch["answer"]'),
        ("    return tokens", "    return finished(tokens)"),
        ("DataCollatorWithPadding(tokenizer)\n", "own_collator\n"),
        ("collator =", "if tokenizer.is_fast:\n    rows = other\ncollator ="),
        ("rows = rows.map(tokenize", "rows = rows.map(elsewhere"),
        (
            "trainer = Trainer(",
            "class Own(Trainer):\n    def compute_loss(self, *x):\n        pass\ntrainer = Own(",
        ),
    ],
)
def test_rows_that_may_have_labels_are_let_be(old: str, new: str) -> None:
    text = UNLABELLED.replace(old, new, 1).replace('rows["train"])', 'rows["train"], data_collator=collator)')
    text = text.replace(".map(tokenize, batched=True).shuffle(seed=1)\ncoll", ".map(tokenize)\ncoll")

    assert "have no labels" not in str(port(text).findings)
