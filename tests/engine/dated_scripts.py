"""A script that names no release."""

from __future__ import annotations

SCRIPT = """from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=load_dataset("x", split="train"))
trainer.train()
"""
