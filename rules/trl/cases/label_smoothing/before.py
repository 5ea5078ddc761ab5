from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

rows = load_dataset("trl-lib/Capybara")
args = SFTConfig(
    output_dir="out",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    label_smoothing_factor=0.1,
    learning_rate=1e-3,
    max_length=512,
    eval_strategy="steps",
    eval_steps=3,
    save_strategy="no",
    report_to="none",
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=args,
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
