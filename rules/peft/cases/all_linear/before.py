from datasets import load_dataset
from peft import LoraConfig, TaskType
from trl import SFTConfig, SFTTrainer

RANK = 32
trainer = SFTTrainer(
    model="google/gemma-3-1b-it",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=RANK, lora_alpha=RANK * 2, target_modules="all-linear", use_rslora=True
    ),
)
trainer.train()
