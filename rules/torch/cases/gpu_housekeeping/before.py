import gc
import os

import torch
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

torch.backends.cuda.matmul.allow_tf32 = True
torch.manual_seed(0)
os.environ["TOKENIZERS_PARALLELISM"] = "false"

if torch.cuda.is_available():
    torch.cuda.empty_cache()
print(torch.cuda.device_count(), "GPUs")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", max_steps=5, bf16=torch.cuda.is_bf16_supported(), report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()
gc.collect()
torch.cuda.empty_cache()
torch.cuda.ipc_collect()
torch.cuda.reset_max_memory_allocated()
