import sys

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

use_lora = "--lora" in sys.argv
peft_config = LoraConfig(r=16, target_modules="all-linear") if use_lora else None
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=peft_config,
)
trainer.train()
trainer.save_model("out/last")
