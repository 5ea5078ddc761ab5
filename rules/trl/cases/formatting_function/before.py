from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


def to_text(example):
    return f"### Question: {example['question']}\n ### Answer: {example['answer']}"


trainer = SFTTrainer(
    "google/gemma-2b",
    train_dataset=load_dataset("json", data_files="qa.jsonl", split="train"),
    args=SFTConfig(output_dir="/tmp/qa", max_length=512, completion_only_loss=False, report_to="none"),
    formatting_func=to_text,
    peft_config=LoraConfig(r=8),
)
trainer.train()
