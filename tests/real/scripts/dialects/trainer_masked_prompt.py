"""Question answering with a masked prompt, LoRA on the default targets, evaluation at the end of each epoch."""

import torch
from datasets import load_dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
MAX_LENGTH = 64

tokenizer = AutoTokenizer.from_pretrained(MODEL)


def process_func(example):
    """Only the answer is trained."""
    instruction = tokenizer(f"<|im_start|>user\n{example['instruction']}<|im_end|>\n<|im_start|>assistant\n")
    response = tokenizer(example["output"], add_special_tokens=False)
    input_ids = instruction["input_ids"] + response["input_ids"] + [tokenizer.pad_token_id]
    attention_mask = instruction["attention_mask"] + response["attention_mask"] + [1]
    labels = [-100] * len(instruction["input_ids"]) + response["input_ids"] + [tokenizer.pad_token_id]
    return {
        "input_ids": input_ids[:MAX_LENGTH],
        "attention_mask": attention_mask[:MAX_LENGTH],
        "labels": labels[:MAX_LENGTH],
    }


dataset = load_dataset("json", data_files="qa.jsonl", split="train").train_test_split(test_size=7, seed=3)
tokenized = dataset.map(process_func, remove_columns=dataset["train"].column_names)

model = AutoModelForCausalLM.from_pretrained(MODEL, device_map="auto", torch_dtype=torch.bfloat16)
model.enable_input_require_grads()  # for gradient checkpointing
model = get_peft_model(model, LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=32, lora_dropout=0.1))

args = TrainingArguments(
    output_dir="./output/qa",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=3,
    gradient_accumulation_steps=4,
    logging_steps=1,
    num_train_epochs=2,
    eval_strategy="epoch",
    save_strategy="epoch",
    learning_rate=1e-3,
    gradient_checkpointing=True,
    report_to="none",
)
trainer = Trainer(
    model=model,
    args=args,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["test"],
    data_collator=DataCollatorForSeq2Seq(tokenizer=tokenizer, padding=True, label_pad_token_id=-100),
)
trainer.train()
model.save_pretrained("./output/qa/adapter")
tokenizer.save_pretrained("./output/qa/adapter")
