"""Unsloth's rotary embeddings, stretched where a model is loaded for more tokens than it was made for, or dropped."""

from __future__ import annotations

import pytest

from .porting import port
from .unsloth_scripts import script

NEW = "# pip install unsloth==2026.6.5\n"
DROPS = "# pip install unsloth==2025.3.19 trl==0.15.2 transformers==4.49.0\n"
OLD = "# pip install unsloth==2024.8 trl==0.8.6 transformers==4.44.2\n"


@pytest.mark.parametrize(
    ("install", "name", "length", "said"),
    [
        (OLD, "unsloth/tinyllama-bnb-4bit", 4096, "Unsloth 2024.8 beside transformers 4.44.2 stretches"),
        (OLD, "unsloth/llama-3-8b-bnb-4bit", 12288, "embedding by 1.5;"),
        (OLD, "unsloth/tinyllama", 2048, ""),
        (OLD, "unsloth/Meta-Llama-3.1-8B", 16384, ""),
        (DROPS, "unsloth/tinyllama", 4096, ""),
        (OLD, "unsloth/Llama-3.2-1B", 2048, ""),
        (DROPS, "unsloth/Llama-3.2-1B", 2048, "Unsloth 2025.3.19 beside transformers 4.49.0 drops"),
        (DROPS, "unsloth/DeepSeek-R1-Distill-Llama-8B", 2048, "drops the scaling"),
        (DROPS, "unsloth/Qwen2.5-7B", 2048, ""),
        (NEW, "unsloth/Llama-3.2-1B", 2048, ""),
        (NEW, "unsloth/tinyllama", 4096, "stretches its rotary"),
    ],
)
def test_other_positions_than_the_ports_are_named(install: str, name: str, length: int, said: str) -> None:
    text = script().replace("unsloth/Qwen3-0.6B", name).replace("max_seq_length=512", f"max_seq_length={length}")
    if install != NEW:
        text = text.replace("SFTConfig(", "TrainingArguments(").replace("import SFTConfig, SFT", "import SFT")
        text = f"from transformers import TrainingArguments\n{text.replace('processing_class', 'tokenizer')}"
    found = [each.message for each in port(install + text).findings if "rotary embedding" in each.message]
    assert len(found) == bool(said) and (not said or said in found[0])
