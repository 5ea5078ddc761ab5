from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import KTOConfig, KTOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
trainer = KTOTrainer(
    model=model,
    args=KTOConfig(output_dir="kto", undesirable_weight=1.5, per_device_train_batch_size=16),
    train_dataset=load_dataset("trl-lib/kto-mix-14k", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules="all-linear"),
)
trainer.train()
