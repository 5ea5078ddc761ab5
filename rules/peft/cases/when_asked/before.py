import argparse

from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--lora", action="store_true")
flags = parser.parse_args()

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
if flags.lora:
    model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))

trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"),
)
trainer.train()
trainer.save_model("out/last")
