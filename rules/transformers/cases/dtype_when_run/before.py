import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

bf16 = torch.cuda.is_bf16_supported()
model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", torch_dtype=torch.bfloat16 if bf16 else torch.float16
)
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="out", max_steps=10, bf16=bf16, fp16=not bf16, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
