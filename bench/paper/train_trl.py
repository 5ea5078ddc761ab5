"""The GPU recipe: Gemma 4 31B, LoRA r=64, the final answers of CodeV-R1, two GPUs, sixteen rows a step."""

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "google/gemma-4-31B-it"


def to_messages(row):
    answer = row["response"].split("</think>")[-1].strip()
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": answer}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16)
dataset = load_dataset("json", data_files="codev.jsonl", split="train").select(range(10_000)).map(to_messages)
args = SFTConfig(
    output_dir="out",
    num_train_epochs=1,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=8,
    learning_rate=1e-4,
    lr_scheduler_type="cosine",
    warmup_steps=100,
    weight_decay=0.001,
    max_length=3072,
    gradient_checkpointing=True,
    save_strategy="no",
    report_to="none",
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(
        r=64,
        lora_alpha=64,
        target_modules=r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)$",
    ),
)
trainer.train()
trainer.save_model("out/adapter")
