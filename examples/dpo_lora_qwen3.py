"""Teach Qwen3 which of two answers people prefer: DPO with LoRA, against the model as it was."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

MODEL = "Qwen/Qwen3-0.6B"


def to_pair(row):
    """The question as a conversation, and an answer for each side."""
    return {
        "prompt": [{"role": "user", "content": row["question"].strip()}],
        "chosen": [{"role": "assistant", "content": row["better"]}],
        "rejected": [{"role": "assistant", "content": row["worse"]}],
    }


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
pairs = load_dataset("json", data_files="pairs.jsonl", split="train")
pairs = pairs.map(to_pair, remove_columns=["question", "better", "worse"])

args = DPOConfig(
    output_dir="out",
    beta=0.1,
    max_steps=60,
    per_device_train_batch_size=3,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    lr_scheduler_type="cosine",
    warmup_steps=2,
    max_length=256,
    logging_steps=10,
    report_to="tensorboard",
)
trainer = DPOTrainer(
    model,
    args=args,
    train_dataset=pairs,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules="all-linear"),
)
trainer.train()
trainer.save_model("out/adapter")
