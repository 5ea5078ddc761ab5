"""Unsloth's rotary embedding of a model that is loaded for more tokens than it was made for."""

from __future__ import annotations

import pytest

from .porting import port
from .unsloth_scripts import script

OLD = "# pip install unsloth==2024.8 trl==0.8.6 transformers==4.44.2\n"


@pytest.mark.parametrize(
    ("install", "name", "length", "said"),
    [
        (OLD, "unsloth/tinyllama-bnb-4bit", 4096, "by 2 beside transformers 4.44.2"),
        (OLD, "unsloth/llama-3-8b-bnb-4bit", 12288, "by 1.5 beside"),
        (OLD, "unsloth/tinyllama", 2048, ""),
        (OLD, "unsloth/Meta-Llama-3.1-8B", 16384, ""),
        ("# pip install unsloth==2025.3.19 transformers==4.49.0\n", "unsloth/tinyllama", 4096, ""),
    ],
)
def test_positions_that_unsloth_stretches_are_named(install: str, name: str, length: int, said: str) -> None:
    text = script().replace("unsloth/Qwen3-0.6B", name).replace("max_seq_length=512", f"max_seq_length={length}")
    text = text.replace("SFTConfig(", "TrainingArguments(").replace("import SFTConfig, SFT", "import SFT")
    text = f"{install}from transformers import TrainingArguments\n{text.replace('processing_class', 'tokenizer')}"
    found = [each.message for each in port(text).findings if "stretches its rotary embedding" in each.message]
    assert len(found) == bool(said) and (not said or said in found[0])
