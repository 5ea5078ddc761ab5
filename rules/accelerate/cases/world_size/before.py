import os

import torch
from accelerate import PartialState
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

world = int(os.environ.get("WORLD_SIZE", 1))
args = SFTConfig(
    output_dir="o",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=64 // world // PartialState().num_processes,
    learning_rate=1e-5 * int(os.environ["WORLD_SIZE"]),
    report_to="none",
)
print(torch.distributed.get_world_size())
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("imdb", split="train"))
trainer.train()
