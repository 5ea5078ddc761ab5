"""A script that trains by SFTTrainer, with lines of a test behind it, and token ids that these start from."""

from __future__ import annotations

HEAD = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
tokenizer = AutoTokenizer.from_pretrained('Qwen/Qwen3-0.6B')
model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-0.6B', dtype='auto')
"""
TRAIN = """\
trainer = SFTTrainer(model, args=SFTConfig('out'), train_dataset=rows, processing_class=tokenizer)
trainer.train()
"""
IDS = "ids = tokenizer('a', return_tensors='pt').to('cuda')\n"


def script(*lines: str) -> str:
    return HEAD + TRAIN + "\n".join(lines) + "\n"
