"""Settings in a class of the script's own, seeds and devices set up by hand, adapters put in before the trainer."""

import os
import random
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer


@dataclass
class Config:
    model: str = "Qwen/Qwen3-0.6B"
    output: str = "out"
    learning_rate: float = 1e-3
    seed: int = 7
    save: str = "no"
    targets: tuple = ("q_proj", "o_proj")


cfg = Config()
local_rank = int(os.environ.get("LOCAL_RANK", -1))
random.seed(cfg.seed); np.random.seed(cfg.seed); torch.manual_seed(cfg.seed)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(cfg.seed)
    torch.cuda.empty_cache()

tokenizer = AutoTokenizer.from_pretrained(cfg.model)
model = AutoModelForCausalLM.from_pretrained(cfg.model, torch_dtype=torch.float32)
model = get_peft_model(model, LoraConfig(task_type=TaskType.CAUSAL_LM, r=4, target_modules=list(cfg.targets)))
model.print_trainable_parameters()
rows = Dataset.from_list([{"question": f"Is {i} odd?", "answer": "yes" if i % 2 else "no"} for i in range(24)])
args = SFTConfig(
    output_dir=cfg.output,
    max_steps=4,
    learning_rate=cfg.learning_rate,
    seed=cfg.seed,
    save_strategy=cfg.save,
    per_device_train_batch_size=4,
    max_length=64,
    report_to="none",
)
trainer = SFTTrainer(
    model=model,
    args=args,
    train_dataset=rows,
    processing_class=tokenizer,
    formatting_func=lambda row: f"{row['question']} {row['answer']}",
)
trainer.train()
if local_rank in (-1, 0):
    trainer.model.save_pretrained(cfg.output)
    tokenizer.save_pretrained(cfg.output)
