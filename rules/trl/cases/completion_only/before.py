from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DataCollatorForCompletionOnlyLM, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")
collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)


def to_texts(rows):
    return [f"### Question: {q}\n### Answer: {a}" for q, a in zip(rows["question"], rows["answer"])]


trainer = SFTTrainer(
    model,
    tokenizer=tokenizer,
    train_dataset=load_dataset("json", data_files="qa.jsonl", split="train"),
    args=TrainingArguments("out", per_device_train_batch_size=2, num_train_epochs=1),
    formatting_func=to_texts,
    data_collator=collator,
    max_seq_length=512,
)
trainer.train()
