"""TRL 0.9 to 0.12 took a DPOConfig and the trainer's older keywords, which win."""
from datasets import load_dataset
from transformers import AutoTokenizer, HfArgumentParser
from trl import DPOConfig, DPOTrainer

(training_args,) = HfArgumentParser(DPOConfig).parse_args_into_dataclasses()
trainer = DPOTrainer(
    "Qwen/Qwen2.5-0.5B",
    args=training_args,
    beta=0.3,
    max_prompt_length=256,
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer=AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B"),
)
trainer.train()
