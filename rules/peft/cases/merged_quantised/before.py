import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bnb_config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bnb_config, dtype=torch.bfloat16)

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", max_steps=100),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()

merged = trainer.model.merge_and_unload()
merged.save_pretrained("merged")
