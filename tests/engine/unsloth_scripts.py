"""A script that loads its model by Unsloth and trains it by TRL's SFTTrainer."""

from __future__ import annotations

HEAD = """\
from datasets import load_dataset
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

rows = load_dataset('x', split='train')
"""
LOAD = "FastLanguageModel.from_pretrained('unsloth/Qwen3-0.6B', max_seq_length=512, load_in_4bit=False)\n"
PUT_IN = "model = FastLanguageModel.get_peft_model(model)\n"


def script(config: str = "'out'", trainer: str = "") -> str:
    made = f"SFTTrainer(model, args=SFTConfig({config}), train_dataset=rows, processing_class=tokenizer{trainer})\n"
    return f"{HEAD}model, tokenizer = {LOAD}{PUT_IN}trainer = {made}trainer.train()\n"
