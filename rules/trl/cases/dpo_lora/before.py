from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype="bfloat16")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
pairs = load_dataset("trl-lib/ultrafeedback_binarized", split="train")

args = DPOConfig(
    output_dir="dpo",
    beta=0.05,  # a loose leash
    loss_type=["sigmoid", "sft"],
    loss_weights=[1.0, 0.2],
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    max_length=768,
    save_strategy="no",
    report_to="none",
)
trainer = DPOTrainer(
    model=model,
    args=args,
    train_dataset=pairs,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
trainer.save_model("dpo")
