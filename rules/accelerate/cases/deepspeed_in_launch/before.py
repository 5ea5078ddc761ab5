from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_steps=5, per_device_train_batch_size=2, gradient_accumulation_steps=4, report_to="none")
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("some/rows", split="train"))
trainer.train()
