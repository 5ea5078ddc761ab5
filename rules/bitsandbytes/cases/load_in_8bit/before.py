import os

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_int8_training
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

base = "google/gemma-2-9b"
model = AutoModelForCausalLM.from_pretrained(
    base,
    load_in_8bit=True,
    torch_dtype=torch.float16,
    device_map={"": int(os.environ.get("LOCAL_RANK") or 0)},
)
model = prepare_model_for_int8_training(model)
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))

tokenizer = AutoTokenizer.from_pretrained(base)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
