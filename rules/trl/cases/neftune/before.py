from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("trl-lib/Capybara", split="train")
trainer = SFTTrainer(
    model="google/gemma-3-4b-it",
    args=SFTConfig(
        output_dir="out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        neftune_noise_alpha=5,  # as in the paper
        max_length=512,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=rows,
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
