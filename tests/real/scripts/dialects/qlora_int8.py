"""The bits from the command line: 8, 4 or none, as many scripts offer them."""

import argparse

import torch
from datasets import Dataset
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen2.5-1.5B-Instruct")
parser.add_argument("--bits", type=int, default=8)
args = parser.parse_args()

quantization = None
if args.bits in (4, 8):
    quantization = BitsAndBytesConfig(
        load_in_8bit=args.bits == 8,
        load_in_4bit=args.bits == 4,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
tokenizer = AutoTokenizer.from_pretrained(args.model)
model = AutoModelForCausalLM.from_pretrained(args.model, quantization_config=quantization, dtype=torch.bfloat16)
if quantization is not None:
    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)

rows = [
    {"prompt": f"Is {n} even?", "completion": " Yes." if n % 2 == 0 else f" No, {n} is odd."} for n in range(40)
]
trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=Dataset.from_list(rows),
    args=SFTConfig(
        output_dir="outputs",
        per_device_train_batch_size=8,
        max_steps=6,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        logging_steps=2,
        optim="adamw_bnb_8bit",
        report_to="none",
        save_strategy="no",
    ),
    peft_config=LoraConfig(r=16, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()
