"""Distil a larger Qwen3 into a smaller one with LoRA."""
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer

STUDENT = "Qwen/Qwen3-0.6B"

tokenizer = AutoTokenizer.from_pretrained(STUDENT)
model = AutoModelForCausalLM.from_pretrained(STUDENT, dtype=torch.float32)
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)  # frozen
dataset = load_dataset("json", data_files="chats.jsonl", split="train")

args = GKDConfig(
    output_dir="out",
    max_steps=100,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=1e-4,
    lmbda=0.0,
    beta=0.3,  # nearer to the forward divergence
    max_length=512,
)
trainer = GKDTrainer(
    model=model,
    teacher_model=teacher,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out/adapter")
