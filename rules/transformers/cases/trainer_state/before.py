import json

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("trl-lib/Capybara")
trainer = SFTTrainer(
    model="Qwen/Qwen2.5-7B-Instruct",
    args=SFTConfig(output_dir="out", eval_strategy="epoch", logging_strategy="no", report_to="none"),
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
print(f"best loss: {trainer.state.best_metric}")
with open("history.json", "w") as file:
    json.dump(trainer.state.log_history, file)
