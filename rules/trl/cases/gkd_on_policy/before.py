"""The student trains on half its own completions; flags decide the rest."""
import argparse

from datasets import load_dataset
from transformers import AutoTokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--teacher_name", default="google/gemma-3-4b-it")
flags = parser.parse_args()
config = GKDConfig(
    output_dir="out",
    num_train_epochs=1,
    per_device_train_batch_size=2,
    seq_kd=True,
    max_new_tokens=64,
    temperature=0.7,
    eval_strategy="epoch",
    logging_steps=5,
)
data = load_dataset("json", data_files={"train": "chats.jsonl", "test": "held.jsonl"})
trainer = GKDTrainer(
    "google/gemma-3-1b-it",
    teacher_model=flags.teacher_name,
    args=config,
    processing_class=AutoTokenizer.from_pretrained("google/gemma-3-1b-it"),
    train_dataset=data["train"],
    eval_dataset=data["test"],
)
trainer.train()
trainer.save_model()
