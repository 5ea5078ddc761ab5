import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen3-8B")
parser.add_argument("--use_4bit", action="store_true")
parser.add_argument("--quant_type", default="nf4")
args = parser.parse_args()

bnb_config = None
if args.use_4bit:
    bnb_config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type=args.quant_type, bnb_4bit_compute_dtype=torch.bfloat16
    )
model = AutoModelForCausalLM.from_pretrained(args.model, quantization_config=bnb_config, dtype=torch.bfloat16)
if args.use_4bit:
    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
tokenizer = AutoTokenizer.from_pretrained(args.model)
model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear"))

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
