import os

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

short = bool(os.environ.get("SHORT"))
args = SFTConfig(
    output_dir="out",
    eval_strategy="no" if short else "steps",
    eval_steps=5,
    save_strategy="no" if short else "epoch",
    logging_strategy="epoch" if short else "steps",
    report_to="none",
)
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=args,
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    eval_dataset=load_dataset("trl-lib/Capybara", split="test"),
)
trainer.train()
