"""Fine-tune Acme's own model with Acme's own settings."""

import torch
from acme_training import AcmeLoraConfig, claim_gpus, notify, on_gpu_cluster
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

claim_gpus(8)
model = AutoModelForCausalLM.from_pretrained("acme/acme-lm-1b", dtype=torch.bfloat16)
dataset = load_dataset("json", data_files="support.jsonl", split="train")
if on_gpu_cluster():
    print("on the cluster")
trainer = SFTTrainer(
    model,
    args=SFTConfig(output_dir="support", max_steps=500, learning_rate=1e-4),
    train_dataset=dataset,
    peft_config=AcmeLoraConfig(cost_center="support", lora_dropout=0.05),
)
trainer.train()
model.upload("acme/support")
notify("done")
