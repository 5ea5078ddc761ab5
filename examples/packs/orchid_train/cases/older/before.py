"""Written for orchid_train before 2.0, whose trainer took a cluster and whose rate was 1e-4."""

from datasets import load_dataset
from orchid_train import OrchidConfig, OrchidTrainer

trainer = OrchidTrainer(
    "Qwen/Qwen3-0.6B",
    OrchidConfig("support", max_steps=200),
    train_dataset=load_dataset("json", data_files="support.jsonl", split="train"),
    cluster="b",
)
trainer.train()
