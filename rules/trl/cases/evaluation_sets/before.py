from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

rows = load_dataset("trl-lib/Capybara")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", eval_strategy="epoch", model_init_kwargs={"dtype": "auto", "subfolder": "step-3"}),
    train_dataset=rows["train"],
    eval_dataset={"seen": rows["train"], "new": rows["test"]},
)
trainer.train()
