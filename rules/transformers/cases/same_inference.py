"""A model that is only asked."""
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
model.config.use_cache = True
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
print(tokenizer.decode(model.generate(**tokenizer("Hello", return_tensors="pt"))[0]))
