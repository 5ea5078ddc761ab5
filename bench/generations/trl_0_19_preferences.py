"""DPO with LoRA on chosen and rejected answers, as written for TRL 0.19 (transformers 4.53)."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

# pip install trl==0.19.1 transformers==4.53.2 peft==0.16.0
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")

trainer = DPOTrainer(
    model=model,
    args=DPOConfig(
        output_dir="dpo",
        beta=0.1,
        max_length=512,
        max_prompt_length=256,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=5e-6,
        num_train_epochs=1,
    ),
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
trainer.train()
trainer.save_model("dpo/final")
