"""A model of Unsloth's that no get_peft_model puts adapters into: what the GPU run trains of it."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import os
from unsloth import {loader}
from datasets import load_dataset
from peft import LoraConfig, PeftModel
from trl import SFTConfig, SFTTrainer

full = bool(os.environ.get("FULL"))
model, tokenizer = {loader}.from_pretrained("{name}", load_in_4bit=False{load})
{between}
rows = load_dataset("some/rows", split="train")
trainer = SFTTrainer(model, args=SFTConfig(output_dir="out", max_steps=5), train_dataset=rows{trainer})
trainer.train()
"""
QWEN, GEMMA = "unsloth/Qwen2.5-0.5B", "unsloth/gemma-3-1b-it"
ADAPTED = "model = {loader}.get_peft_model(model, r=8)"
GIVEN = ", peft_config=LoraConfig(r=8, target_modules=['q_proj'])"


def said(loader: str, name: str, load: str = "", between: str = "", trainer: str = "", **options: str) -> list[str]:
    text = SCRIPT.format(loader=loader, name=name, load=load, between=between.format(loader=loader), trainer=trainer)
    found = port(text, **options).findings
    return [f"{each.severity}: {each.message}" for each in found if each.rule == "TP701" and "GPU" in each.message] + [
        f"{each.severity}: {each.message}" for each in found if "norms no gradient" in each.message
    ]


@pytest.mark.parametrize(
    ("loader", "name", "starts"),
    [
        ("FastModel", GEMMA, "error: No adapters"),
        ("FastModel", QWEN, "error: No adapters"),
        ("FastLanguageModel", GEMMA, "error: No adapters"),
        ("FastLanguageModel", QWEN, "warning: No adapters"),
    ],
)
def test_what_is_frozen(loader: str, name: str, starts: str) -> None:
    (only,) = said(loader, name)
    assert only.startswith(starts)
    assert said(loader, name, between=ADAPTED) == []
    assert said(loader, name, load=", full_finetuning=True") == []
    assert said(loader, name, load=", full_finetuning=full") == []
    assert said(loader, name, between="model = PeftModel.from_pretrained(model, 'sft', is_trainable=True)") == []


@pytest.mark.parametrize(("trl", "says"), [("0.24.0", 1), ("0.12.1", 0)])
def test_unsloth_takes_peft_config_out_of_the_trainers(trl: str, says: int) -> None:
    assert len(said("FastLanguageModel", QWEN, trainer=GIVEN, source_trl=trl)) == says
    assert said("FastLanguageModel", QWEN, between=ADAPTED, trainer=GIVEN, source_trl=trl) == []
