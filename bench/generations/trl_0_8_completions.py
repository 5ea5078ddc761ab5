"""Answers only, by a formatting function and a collator, as written for TRL 0.8 (transformers 4.40)."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DataCollatorForCompletionOnlyLM, SFTTrainer

# pip install "trl==0.8.6" "transformers==4.40.2"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen1.5-0.5B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen1.5-0.5B")

dataset = load_dataset("json", data_files="data/instructions.jsonl", split="train")


def format_prompts(examples):
    texts = []
    for instruction, output in zip(examples["instruction"], examples["output"]):
        texts.append(f"### Question: {instruction}\n### Answer: {output}")
    return texts


collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)

trainer = SFTTrainer(
    model,
    train_dataset=dataset,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=8,
        learning_rate=1e-4,
        num_train_epochs=2,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        evaluation_strategy="no",
        report_to="wandb",
    ),
    formatting_func=format_prompts,
    data_collator=collator,
    max_seq_length=256,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model("out/final")
