from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=SFTConfig(output_dir="out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(
        r=16,
        target_modules=["q_proj", "v_proj"],
        use_dora=True,
        modules_to_save=["lm_head", "embed_tokens"],
    ),
)
trainer.train()
