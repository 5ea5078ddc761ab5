import os

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

loading = {"revision": "main"}
if "HALF" in os.environ:
    loading["dtype"] = "bfloat16"
args = SFTConfig(
    output_dir="out",
    model_init_kwargs=loading,
    dataset_kwargs={"skip_prepare_dataset": "PREPARED" in os.environ},
    report_to="none",
)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
