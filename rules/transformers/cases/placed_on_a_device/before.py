import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

device = "cuda" if torch.cuda.is_available() else "cpu"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype=torch.bfloat16).to(device)
model.config.use_cache = False
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
