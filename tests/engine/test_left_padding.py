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


COLLATED = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from mine import collate

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", attn_implementation="{attention}")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
{line}
rows = load_dataset("mine/tokens", split="train")
trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows, data_collator={collator})
trainer.train()
{after}
"""


@pytest.mark.parametrize(("given", "told"), [("eager", True), ("flash_attention_2", True), ("sdpa", False)])
def test_batches_know_the_attention_of_padding(given: str, told: bool) -> None:
    text = COLLATED.format(attention=given, line=LEFT, collator="DataCollatorForSeq2Seq(tokenizer)", after="")
    assert (f'attention="{given}",  # decides' in port(text).after) is told
    right = text.replace(LEFT, "")
    unpadded = "flash" in given  # whose padding sees nothing, wherever it is
    assert ("attention=" in port(right).after) is unpadded
    assert ("padding that has labels sees nothing" in str(port(right).recipe)) is unpadded
    masks = "DataCollatorForLanguageModeling(tokenizer, mlm=False)"
    of_transformers = right.replace("DataCollatorForSeq2Seq(tokenizer)", masks)
    assert "attention=" not in port(of_transformers.replace("ForSeq2Seq,", "ForLanguageModeling,")).after


BY_CLASS = """# pip install trl=={trl} transformers=={transformers}
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaTokenizer, TrainingArguments
from trl import DataCollatorForCompletionOnlyLM, SFTTrainer

tokenizer = {load}
{line}
rows = load_dataset("imdb", split="train")
trainer = SFTTrainer(
    AutoModelForCausalLM.from_pretrained("{model}"),
    args=TrainingArguments("out", per_device_train_batch_size={size}),
    train_dataset=rows,
    dataset_text_field="text",
    {given}
)
trainer.train()
"""
MISTRAL, ON_RIGHT = "mistralai/Mistral-7B-v0.1", 'tokenizer.padding_side = "right"'
RULE = rule_module("transformers", "tokens.left_padding")
EVALUATED = RULE.BY_CLASS.format(MISTRAL) + RULE.EVALUATED


@pytest.mark.parametrize(
    ("changed", "severity"),
    [
        ({}, "warning"),
        ({"given": ""}, "warning"),  # the trainer loads the model's
        ({"model": "google/gemma-2b"}, "warning"),
        ({"model": "meta-llama/Llama-2-7b-hf"}, "info"),  # whose file says right
        ({"model": "meta-llama/Llama-3.2-1B"}, ""),
        ({"model": "Qwen/Qwen2.5-0.5B"}, ""),
        ({"line": ON_RIGHT}, ""),
        ({"load": f'AutoTokenizer.from_pretrained("{MISTRAL}", use_fast=False)'}, ""),
        ({"load": f'LlamaTokenizer.from_pretrained("{MISTRAL}")'}, ""),
        ({"given": 'tokenizer=tokenizer, data_collator=DataCollatorForCompletionOnlyLM("#", tokenizer=tokenizer)'}, ""),
        ({"given": "tokenizer=tokenizer, packing=True"}, ""),
        ({"size": 1}, ""),
        ({"size": 1, "given": "tokenizer=tokenizer, eval_dataset=rows"}, EVALUATED),
    ],
)
def test_classes_that_pad_left_by_themselves(changed: dict[str, str], severity: str) -> None:
    model = changed.get("model", MISTRAL)
    usual = {"load": f'AutoTokenizer.from_pretrained("{model}")', "given": "tokenizer=tokenizer", "line": "", "size": 4}
    text = BY_CLASS.format(trl="0.8.6", transformers="4.41.1", **({**usual, "model": model} | changed))
    head = RULE.BY_CLASS.format(model)
    found = [finding for finding in port(text).findings if finding.message.startswith(head)]
    if severity == EVALUATED:
        assert [each.message for each in found] == [EVALUATED]
    else:
        assert [each.severity for each in found] == ([severity] if severity else [])


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
    text = COLLATED.format(attention="eager", line=OTHER, collator=collator + tokenizer, after=LEFT)
    assert ('attention="eager",  # decides' in port(text).after) is told
