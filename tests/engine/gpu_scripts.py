"""A script that trains, with lines that ask for a GPU in front of its model."""

from __future__ import annotations

HEAD = """import sys
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
"""

TAIL = """model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
{more}trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir={folder}, max_steps=5, report_to="none"{extra}),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
"""
DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"\n'


def script(before: str = "", *, more: str = "", extra: str = "", folder: str = '"out"') -> str:
    return HEAD + before + TAIL.format(more=more, extra=extra, folder=folder)
