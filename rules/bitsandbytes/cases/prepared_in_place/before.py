import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

base = "Qwen/Qwen2.5-7B-Instruct"
model = AutoModelForCausalLM.from_pretrained(
    base, quantization_config=BitsAndBytesConfig(load_in_4bit=True), dtype=torch.bfloat16
)
model = get_peft_model(
    prepare_model_for_kbit_training(model, use_gradient_checkpointing=True),
    LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
tokenizer = AutoTokenizer.from_pretrained(base)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
