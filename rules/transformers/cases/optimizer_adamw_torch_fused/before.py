from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out", max_steps=300, learning_rate=1e-4, optim="adamw_torch_fused", weight_decay=0.01, max_grad_norm=0.0, report_to="none"
)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=load_dataset("trl-lib/Capybara", split="train"))
trainer.train()
