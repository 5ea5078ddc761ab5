"""Imports TRL for a dataset's sake."""
import torch
from trl import SFTConfig, pack_dataset

torch.cuda.empty_cache()
config = SFTConfig(output_dir="out", learning_rate=1e-4)
print(config.learning_rate, pack_dataset, torch.bfloat16)
