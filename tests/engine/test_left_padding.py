"""Rows padded on the left: what their first token is predicted from is said, or told to the batches."""

from __future__ import annotations

import pytest

from .porting import port, rule_module

SFT = """# pip install trl=={release}
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B"{word})
{line}
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B"),
    args=SFTConfig("out", packing={packing}),
    train_dataset=load_dataset("imdb", split="train"),
    {name}=tokenizer,
)
trainer.train()
"""
UNTRAINED = rule_module("transformers", "tokens.left_padding").UNTRAINED
LEFT = 'tokenizer.padding_side = "left"'


@pytest.mark.parametrize(
    ("release", "word", "line", "packing", "said"),
    [
        ("0.12.2", "", LEFT, False, True),
        ("0.12.2", ', padding_side="left"', "", False, True),
        ("0.12.2", ', padding_side="left"', 'tokenizer.padding_side = "right"', False, False),
        ("0.12.2", "", "", False, False),
        ("0.12.2", "", LEFT, True, False),
        ("0.17.0", "", LEFT, False, False),
    ],
)
def test_older_sft_trainers_say_so(release: str, word: str, line: str, packing: bool, said: bool) -> None:
    name = "tokenizer" if release < "0.12" else "processing_class"
    ported = port(SFT.format(release=release, word=word, line=line, packing=packing, name=name))
    assert any(finding.message == UNTRAINED for finding in ported.findings) is said


@pytest.mark.parametrize(("given", "told"), [("eager", True), ("flash_attention_2", True), ("sdpa", False)])
def test_batches_know_the_attention_of_padding(given: str, told: bool) -> None:
    text = f"""from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", attn_implementation="{given}")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
{LEFT}
trainer = Trainer(
    model=model,
    args=TrainingArguments("out"),
    train_dataset=load_dataset("mine/tokens", split="train"),
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
trainer.train()
"""
    assert (f'attention="{given}",  # decides' in port(text).after) is told
    right = text.replace(LEFT, "")
    unpadded = "flash" in given  # whose padding sees nothing, wherever it is
    assert ("attention=" in port(right).after) is unpadded
    assert ("padding that has labels sees nothing" in str(port(right).recipe)) is unpadded
    masks = "DataCollatorForLanguageModeling(tokenizer, mlm=False)"
    of_transformers = right.replace("DataCollatorForSeq2Seq(tokenizer)", masks)
    assert "attention=" not in port(of_transformers.replace("ForSeq2Seq,", "ForLanguageModeling,")).after


OTHER = 'other = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B", padding_side="left")'


@pytest.mark.parametrize(
    ("before", "between", "after", "said"),
    [
        ("", "", LEFT, False),
        ("", LEFT, "", True),  # its collator pads while it trains
        ("", "", f"{LEFT}\ntrainer.evaluate()", True),
        ("", "", f"def generate():\n    {LEFT}\n\ngenerate()", False),
        (f"def prepare():\n    {LEFT}\n\nprepare()", "", "prepare()", True),
        (OTHER, "", "", False),
        (OTHER, "", 'print(other(["a"]))', False),
        (f"{OTHER}\nother.pad_token = other.eos_token", "", "", False),
        (OTHER.replace(', padding_side="left"', "") + '\nother.padding_side = "left"', "", "", False),
        (f"{OTHER}\ntokenizer = other", "", "", True),
        (f"{OTHER}\nrows = rows.map(lambda row: other(row['text']))", "", "", True),
        (f"{LEFT}\n{OTHER.replace('left', 'right')}", "", "", True),
        (LEFT, "", 'tokenizer.padding_side = "right"', True),
    ],
)
def test_what_is_set_for_generating_is_not_the_training_s(before: str, between: str, after: str, said: bool) -> None:
    text = f"""# pip install trl==0.12.2
from datasets import load_dataset
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
rows = load_dataset("imdb", split="train")
{before}
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
{between}
trainer.train()
{after}
"""
    assert any(finding.message == UNTRAINED for finding in port(text).findings) is said


@pytest.mark.parametrize(
    ("collator", "tokenizer", "told"),
    [
        ("DataCollatorForSeq2Seq(tokenizer)", "", False),
        ("DataCollatorForSeq2Seq(other)", "", True),
        ("DataCollatorForSeq2Seq(tokenizer=other)", ", processing_class=tokenizer", True),
        ("collate", "", True),
    ],
)
def test_the_collator_pads(collator: str, tokenizer: str, told: bool) -> None:
    text = f"""from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from mine import collate

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", attn_implementation="eager")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
{OTHER}
rows = load_dataset("mine/tokens", split="train")
trainer = Trainer(
    model=model, args=TrainingArguments("out"), train_dataset=rows, data_collator={collator}{tokenizer}
)
trainer.train()
{LEFT}
"""
    assert ('attention="eager",  # decides' in port(text).after) is told
