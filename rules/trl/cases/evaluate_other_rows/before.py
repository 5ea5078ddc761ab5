from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara")
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=dataset["train"],
)
trainer.train()
scores = trainer.evaluate(dataset["test"])
