from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", num_train_epochs=2, lr_scheduler_type="cosine", warmup_steps=0.05, report_to="none")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
