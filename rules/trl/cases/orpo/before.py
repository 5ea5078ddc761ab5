from datasets import load_dataset
from peft import LoraConfig
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

trainer = ORPOTrainer(
    model="Qwen/Qwen3-0.6B",
    args=ORPOConfig(output_dir="orpo", beta=0.2, max_length=512, max_prompt_length=128),
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    peft_config=LoraConfig(target_modules="all-linear"),
)
trainer.train()
