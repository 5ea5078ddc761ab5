"""How Unsloth holds a base where only the run knows its flags."""

from __future__ import annotations

import pytest

from .porting import port

SCRIPT = """\
import argparse

import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel

parser = argparse.ArgumentParser()
parser.add_argument("--four", action="store_true")
parser.add_argument("--half", action="store_true")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()
model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-1.7B", load_in_4bit=args.four{})
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj"])
rows = load_dataset("trl-lib/Capybara", split="train")
SFTTrainer(model=model, train_dataset=rows, args=SFTConfig("out", bf16=args.bf16)).train()
"""


@pytest.mark.parametrize(
    ("more", "held"),
    [
        ("", '"nf4" if args.four else None'),
        (", load_in_16bit=not args.four", '"nf4" if args.four else None'),
        (", load_in_16bit=args.half", 'None if args.half else ("nf4" if args.four else None)'),
        (", load_in_8bit=True, load_in_16bit=args.half", 'None if args.half else "int8"'),
    ],
)
def test_a_base_is_in_bfloat16_whatever_quantises_it(more: str, held: str) -> None:
    ported = port(SCRIPT.format(more))
    assert ported.status == "ported", ported.findings
    assert f"quantization={held}" in ported.after and "dtype=jnp.bfloat16," in ported.after
    assert "float32" not in ported.after
