from datasets import load_dataset
from transformers import AutoTokenizer
from trl import CPOConfig, CPOTrainer

tokenizer = AutoTokenizer.from_pretrained("google/gemma-2-2b-it")
trainer = CPOTrainer(
    "google/gemma-2-2b-it",
    CPOConfig(loss_type="simpo", cpo_alpha=0.0, simpo_gamma=1.0, beta=2.0, output_dir="simpo"),
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    processing_class=tokenizer,
)
trainer.train()
