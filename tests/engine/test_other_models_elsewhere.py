"""A model that a function of another file of the project loads, and that no trainer of Tunix's has."""

from __future__ import annotations

from pathlib import Path

import pytest

from porter.front.port_script import port_script

SCRIPT = """\
from datasets import load_dataset
from transformers import Trainer, TrainingArguments
from lib.models import {name}

{made} = {name}()
rows = load_dataset("json", data_files="rows.jsonl", split="train")
trainer = Trainer(model=model, args=TrainingArguments("out", report_to="none"), train_dataset=rows)
trainer.train()
"""
CLASSIFIER = 'AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B", num_labels=3)'
DECODER = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")'
MODULE = """\
from peft import get_peft_model
from transformers import (
    AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer, GPT2LMHeadModel
)

def load():
    return {0}

def load_both():
    model = {0}
    model = get_peft_model(model, make_config())
    return model, AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")

def load_by_device(device="cuda"):
    if device == "cuda":
        model = {0}
        return model
    return {0}

def load_one_of_two(classify=False):
    return {0} if classify else {1}
"""


@pytest.mark.parametrize(
    ("name", "made", "loaded", "line"),
    [
        ("load", "model", CLASSIFIER, 7),
        ("load_both", "model, tokenizer", CLASSIFIER, 10),
        ("load", "model", 'AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")', 7),
        ("load", "model", 'GPT2LMHeadModel.from_pretrained("gpt2")', 7),
        ("load_by_device", "model", CLASSIFIER, 16),
        ("load_one_of_two", "model", CLASSIFIER, 0),
        ("load", "model", DECODER, 0),
        ("load", "model", 'make("bert")', 0),
    ],
)
def test_what_it_is_is_said_where_the_script_gets_it(
    tmp_path: Path, name: str, made: str, loaded: str, line: int
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/models.py").write_text(MODULE.format(loaded, DECODER))
    (tmp_path / "train.py").write_text(SCRIPT.format(name=name, made=made))
    found = port_script(tmp_path / "train.py")
    said = [(each.line, each.message) for each in found.findings if "Tunix has no implementation" in each.message]
    assert (found.status == "unsupported") is bool(line)
    assert [(5, True)] * bool(line) == [(at, f"(lib/models.py:{line}): " in message) for at, message in said]
    assert not line or not any("port the project's folder" in each.fix for each in found.findings)
