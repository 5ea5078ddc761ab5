"""Fine-tune under hauler: `hauler run job.yaml -- train.py`."""

import hauler
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

hauler.accumulate(2)
hauler.checkpoint_on_preemption()
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="support", max_steps=200, learning_rate=1e-5),
    train_dataset=load_dataset("json", data_files="support.jsonl", split="train"),
)
trainer.train()
