"""What Unsloth's loading call decides for the trainer."""

from __future__ import annotations

import pytest

from .porting import check_becomes, port

HEAD = """\
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel

rows = load_dataset('x', split='train')
"""
LOAD = "FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', max_seq_length=512, load_in_4bit=False)\n"
PUT_IN = "model = FastLanguageModel.get_peft_model(model)\n"


def script(config: str = "'out'", trainer: str = "") -> str:
    made = f"SFTTrainer(model, args=SFTConfig({config}), train_dataset=rows, processing_class=tokenizer{trainer})\n"
    return f"{HEAD}model, tokenizer = {LOAD}{PUT_IN}trainer = {made}trainer.train()\n"


@pytest.mark.parametrize("config", ["'out'", "'out', max_length=64"])
def test_rows_are_cut_at_the_models_length(config: str) -> None:
    found = check_becomes(script(config), "max_length=512,\n", gone=("max_length=64",))
    assert [row.fate for row in found.fields if row.source == "FastLanguageModel.max_seq_length"] == ["exact"]


def test_unless_the_trainer_is_given_its_own() -> None:
    check_becomes(script(trainer=", max_seq_length=64"), "max_length=64,\n", gone=("max_length=512",))


def test_where_the_length_is_not_seen_a_person_is_asked() -> None:
    loads = f"def load(length):\n    return {LOAD.replace('512', 'length')}\n\nmodel, tokenizer = load(512)\n"
    text = script().replace(f"model, tokenizer = {LOAD}", loads)
    assert "max_seq_length=length: Unsloth cuts rows at this length" in port(text).after
