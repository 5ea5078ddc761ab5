"""All weights, on prompts and completions: accumulation, a constant rate behind a warmup, clipping that bites."""

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "meta-llama/Llama-3.2-1B-Instruct"


def to_completion(row):
    return {"prompt": row["prompt"] + "\n", "completion": row["answer"]}


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="float32")
dataset = load_dataset("json", data_files="rows.jsonl", split="train").map(to_completion, remove_columns=["answer"])

args = SFTConfig(
    output_dir="out",
    max_steps=200,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    gradient_checkpointing=False,
    learning_rate=3e-4,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=10,
    weight_decay=0.01,
    max_length=96,
    bf16=True,
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
)
trainer.train()
trainer.save_state()
trainer.save_model("out/model")
