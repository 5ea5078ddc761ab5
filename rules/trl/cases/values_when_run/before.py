import os

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

loss = os.environ["LOSS"]
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", loss_type=loss, label_smoothing_factor=float(os.environ["SMOOTHING"])),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()
