"""Keywords that a model's `from_pretrained` hands on: to the Hub, or to its configuration."""

from __future__ import annotations

import pytest

from porter.port import Port

from .porting import port

SCRIPT = """\
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"{loaded})
{adapted}rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
ADAPTED = 'model = PeftModel.from_pretrained(model, "first", is_trainable=True, {})\n'


def errors(found: Port) -> list[str]:
    return [finding.message for finding in found.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("keyword", "fate"),
    [
        ("local_files_only=True", "dropped"),
        ("force_download=True", "dropped"),
        ("resume_download=True", "dropped"),
        ('proxies={"https": "proxy:80"}', "dropped"),
        ('code_revision="v2"', "dropped"),
        ("ignore_mismatched_sizes=True", "dropped"),
        ("weights_only=False", "dropped"),
        ("num_labels=1", "dropped"),
        ('id2label={0: "good"}', "dropped"),
        ('label2id={"good": 0}', "dropped"),
        ('problem_type="regression"', "dropped"),
        ("bos_token_id=tokenizer.bos_token_id", "dropped"),
        ("eos_token_id=tokenizer.eos_token_id", "dropped"),
        ("pad_token_id=tokenizer.eos_token_id", "changed"),
        ("attention_dropout=0.0", "dropped"),
        ("output_loading_info=False", "dropped"),
        ("variant=None", "dropped"),
    ],
)
def test_what_loads_the_same_model_is_no_error(keyword: str, fate: str) -> None:
    found = port(SCRIPT.format(loaded=f", {keyword}", adapted=""))
    assert errors(found) == []
    name = keyword.partition("=")[0]
    assert [row.fate for row in found.fields if row.source == f"AutoModelForCausalLM.{name}"] == [fate]


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        ("attention_dropout=0.1", "drop nothing"),
        ('subfolder="step-9"', "a local copy of that folder"),
        ('variant="fp16"', "of the plain names"),
        ("output_loading_info=True", "the model alone"),
        ("attn_dropuot=0.1", "Check the spelling"),
    ],
)
def test_what_loads_another_is_told_as_that(keyword: str, words: str) -> None:
    found = port(SCRIPT.format(loaded=f", {keyword}", adapted=""))
    [said] = [each for each in found.findings if each.severity == "error"]
    assert words in f"{said.message} {said.fix}"


@pytest.mark.parametrize("keyword", ["local_files_only=True", "force_download=True", "proxies=None"])
def test_adapters_come_from_the_hub_with_the_same_keywords(keyword: str) -> None:
    found = port(SCRIPT.format(loaded="", adapted=ADAPTED.format(keyword)))
    assert errors(found) == [] and 'rt.apply_adapter(model, "first", mesh' in found.after
