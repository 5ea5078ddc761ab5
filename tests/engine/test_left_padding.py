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
    assert ("is told to the batches" in str(port(right).recipe)) is unpadded
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


PADDED = """# pip install transformers=={transformers}
import sys
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling as Collator
from transformers import Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("{name}"{attention})
tokenizer = AutoTokenizer.from_pretrained("{name}")
{line}
rows = load_dataset("mine/tokens", split="train")
collator = Collator(tokenizer, mlm=False)
{training}
"""
TRAINER = """\
args = TrainingArguments("out", per_device_train_batch_size=1{words})
trainer = Trainer(model=model, args=args, train_dataset=rows, eval_dataset=rows, data_collator=collator)
trainer.train()
"""
LOOP = """\
import torch
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=collator):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
EAGER, FLASH = (f', attn_implementation="{name}"' for name in ("eager", "flash_attention_2"))
SET = 'model.config._attn_implementation = "eager"'
ONE_BY_ONE, QWEN, GEMMA = ", per_device_eval_batch_size=1", "Qwen/Qwen2.5-0.5B", "google/gemma-2-2b"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, '"eager"'),  # of the evaluations, whose batches have more rows
        ({"words": ONE_BY_ONE}, ""),
        ({"name": "google/gemma-3-270m", "transformers": "4.56.0"}, '"eager"'),
        ({"name": "mine/checkpoint", "transformers": "5.1.0"}, '"eager"'),  # whatever its tokenizer_config says
        ({"name": QWEN}, ""),
        ({"line": 'tokenizer.padding_side = "right"'}, ""),
        ({"line": "tokenizer.padding_side = sys.argv[1]"}, '"eager"'),
        ({"attention": FLASH}, '"flash_attention_2"'),
        ({"attention": FLASH, "transformers": "4.53.0"}, ""),  # padding sees nothing under both
        ({"attention": ", attn_implementation=sys.argv[1]"}, "sys.argv[1]"),
        ({"attention": ""}, ""),
        ({"attention": "", "line": 'model.set_attn_implementation("eager")', "transformers": "4.56.0"}, '"eager"'),
        ({"attention": "", "line": SET, "transformers": "4.56.0"}, '"eager"'),
        ({"attention": "", "line": SET}, ""),  # which asks for it once, when it loads
        ({"attention": "", "line": f"{SET}\n{SET.replace('eager', 'paged')}", "transformers": "4.56.0"}, ""),
        ({"attention": "", "name": GEMMA, "transformers": "4.46.3"}, '"eager"'),  # by itself
        ({"attention": "", "name": GEMMA}, ""),
        ({"training": LOOP}, '"eager"'),
        ({"training": LOOP, "attention": ""}, '("sdpa", "4.44.2")'),
        ({"training": LOOP, "attention": "", "transformers": "4.53.0"}, ""),
        ({"training": LOOP, "attention": "", "name": QWEN}, ""),
    ],
)
def test_tokenizers_that_pad_left_by_themselves_have_the_kernel_told(changed: dict[str, str], told: str) -> None:
    usual = {"name": MISTRAL, "attention": EAGER, "transformers": "4.44.2", "line": "", "words": ""}
    given = {**usual, "training": TRAINER} | changed
    given["training"] = given["training"].format(words=given["words"])
    ported = port(PADDED.format(**given))
    found = [line.strip() for line in ported.after.splitlines() if "attention=" in line]
    assert "rt.TrainerBatches(" in ported.after
    assert found == ([f"attention={told},  # decides what padding sees"] if told else [])
    assert ("choice of a GPU kernel" in str(ported.recipe)) is (bool(given["attention"]) and not told)
