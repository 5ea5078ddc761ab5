"""Fine-tune Gemma 4 on Verilog with LoRA (2 x H100, FSDP)."""

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "google/gemma-4-31B-it"


def to_text(row):
    return {"prompt": row["prompt"] + " ", "completion": row["response"].split("</think>")[-1].strip()}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16, attn_implementation="eager")
dataset = load_dataset("zhuyaoyu/CodeV-R1-dataset", split="train").map(to_text, remove_columns=["response"])

args = SFTConfig(
    output_dir="out",
    num_train_epochs=1,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    learning_rate=1e-3,
    lr_scheduler_type="cosine",
    warmup_steps=2,
    weight_decay=0.01,
    max_grad_norm=0.5,
    max_length=128,
    gradient_checkpointing=True,
    report_to="none",
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules=r"^(?!.*vision).*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$",
    ),
)
trainer.train()
trainer.save_model("out/adapter")
