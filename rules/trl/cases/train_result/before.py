from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
result = trainer.train()
trainer.log_metrics("train", result.metrics)
trainer.save_state()
print(trainer.state.log_history)
