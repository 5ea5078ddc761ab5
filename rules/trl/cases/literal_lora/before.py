"""Fine-tune Qwen3 with LoRA."""
from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara", split="train")

peft_config = LoraConfig(
    r=16,
    lora_alpha=32,
    lora_dropout=0.05,  # a little
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    task_type="CAUSAL_LM",
)
training_args = SFTConfig(
    output_dir="qwen3-capybara",
    max_steps=200,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=4,
    learning_rate=2e-4,
    report_to="none",
)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=training_args, train_dataset=dataset, peft_config=peft_config)
trainer.train()
trainer.save_model()
