"""LoRA on the answers of short conversations: accumulation, cosine with warmup, dropout."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"


def to_messages(row):
    return {"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["answer"]}]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
dataset = load_dataset("json", data_files="rows.jsonl", split="train").map(
    to_messages, remove_columns=["prompt", "answer"]
)

args = SFTConfig(
    output_dir="out",
    max_steps=200,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    gradient_checkpointing=False,
    learning_rate=2e-3,
    lr_scheduler_type="cosine",
    warmup_steps=10,
    weight_decay=0.01,
    max_length=128,
    assistant_only_loss=True,
    logging_steps=1,
    report_to="none",
    data_seed=42,
    seed=42,
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules="all-linear"),
)
trainer.train()
trainer.save_state()
trainer.save_model("out/adapter")
