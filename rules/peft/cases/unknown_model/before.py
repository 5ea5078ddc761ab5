import os

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    model=os.environ["MODEL"],
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(r=8, lora_alpha=32, target_modules=["q_proj", "v_proj"], lora_dropout=0.1),
)
trainer.train()
trainer.save_model("out/adapter")
