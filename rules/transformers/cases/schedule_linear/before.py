from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out", max_steps=300, learning_rate=1e-4, lr_scheduler_type="linear", warmup_steps=30, report_to="none"
)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
