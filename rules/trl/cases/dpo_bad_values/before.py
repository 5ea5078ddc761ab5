from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

trainer = DPOTrainer(
    "Qwen/Qwen3-0.6B",
    args=DPOConfig(output_dir="dpo", beta=0, loss_type="sigmoidal", sync_ref_model=True),
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
)
trainer.train()
