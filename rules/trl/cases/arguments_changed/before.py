import os

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_steps=50, report_to="none")
if os.environ.get("LONG"):
    args.max_steps = 5000
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
