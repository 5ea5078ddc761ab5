"""Rows padded on the left: what their first token is predicted from is said, or told to the batches."""

from __future__ import annotations

import pytest

from porter.engine.libraries.transformers.left_padding import UNTRAINED

from .porting import port

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
    assert "attention=" not in port(text.replace(LEFT, "")).after
