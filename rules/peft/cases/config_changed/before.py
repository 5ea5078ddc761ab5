from datasets import load_dataset
from peft import LoraConfig, TaskType
from trl import SFTConfig, SFTTrainer

lora = LoraConfig(r=8, target_modules=["q_proj"], task_type=TaskType.CAUSAL_LM)
lora.r = 16
lora.target_modules.add("v_proj")
trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=lora,
)
trainer.train()
