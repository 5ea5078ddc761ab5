from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", num_train_epochs=1, per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="none")
trainer = SFTTrainer("google/gemma-2-9b", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
