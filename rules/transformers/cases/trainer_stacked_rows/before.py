"""Rows of one length, under transformers' Trainer."""
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, DefaultDataCollator, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))


def tokenize(row):
    ids = tokenizer(row["text"], truncation=True, max_length=256, padding="max_length")["input_ids"]
    return {"input_ids": ids, "labels": list(ids)}


rows = load_dataset("stanfordnlp/imdb", split="train").map(tokenize, remove_columns=["text", "label"])
parts = rows.train_test_split(test_size=0.1, seed=0)
trainer = Trainer(
    model,
    TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="no",
        report_to="none",
    ),
    data_collator=DefaultDataCollator(),
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
)
trainer.train()
