import trl
import peft
import datasets

trainer = trl.trainer.sft_trainer.SFTTrainer(
    model="Qwen/Qwen2.5-0.5B",
    train_dataset=datasets.load_dataset("trl-lib/Capybara", split="train"),
    peft_config=peft.LoraConfig(r=8, target_modules="all-linear"),
    args=trl.SFTConfig(output_dir="out", max_steps=10, report_to="none"),
)
trainer.train()
