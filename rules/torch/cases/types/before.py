import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

DTYPE = torch.bfloat16
half = getattr(torch, "float16")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=DTYPE)
print("trained in", DTYPE, torch.float32)
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
