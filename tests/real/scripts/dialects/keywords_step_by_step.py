"""Dictionaries of keywords that are filled under conditions, and a trainer that is trained where it is made."""

import os

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = os.environ.get("BASE_MODEL", "Qwen/Qwen3-0.6B")
STEPS = int(os.environ.get("STEPS", "4"))

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model_kwargs = {"torch_dtype": "float32"}
if os.environ.get("FLASH"):
    model_kwargs["attn_implementation"] = "flash_attention_2"
model = AutoModelForCausalLM.from_pretrained(MODEL, **model_kwargs)

settings = dict(output_dir="out", per_device_train_batch_size=4, learning_rate=1e-3, max_length=64, report_to="none")
if STEPS > 0:
    settings["max_steps"] = STEPS
else:
    settings["num_train_epochs"] = 1
settings.update(weight_decay=0.01, seed=7)

trainer_kwargs = {
    "model": model,
    "args": SFTConfig(**settings),
    "train_dataset": Dataset.from_list([{"text": f"Row {i} has {i % 5} words more." * (1 + i % 3)} for i in range(24)]),
    "processing_class": tokenizer,
}
if os.environ.get("PEFT", "1") == "1":
    trainer_kwargs["peft_config"] = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
SFTTrainer(**trainer_kwargs).train()
