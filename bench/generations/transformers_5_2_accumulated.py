"""SFT with LoRA and accumulated gradients, as written for TRL 0.28 on transformers 5.2, which divides them twice."""

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

# pip install trl==0.28.0 transformers==5.2.0
trainer = SFTTrainer(
    model="Qwen/Qwen2.5-0.5B-Instruct",
    args=SFTConfig(
        output_dir="accumulated",
        max_length=512,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=8,
        learning_rate=1e-4,
        optim="sgd",
        max_steps=20,
    ),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model("accumulated/final")
