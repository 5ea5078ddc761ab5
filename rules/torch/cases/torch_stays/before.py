import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

weights = torch.softmax(torch.tensor([1.0, 2.0]), dim=0)
dataset = load_dataset("trl-lib/Capybara", split="train").shuffle(seed=int(weights.argmax()))
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", max_steps=5, report_to="none"), train_dataset=dataset)
trainer.train()
