"""With --lora one trainer, without it another; the lines behind them are for both."""

import argparse

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--lora", action="store_true")
flags = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
rows = Dataset.from_list([{"prompt": f"What is {i} and {i}?", "completion": f" It is {2 * i}."} for i in range(24)])
args = SFTConfig(
    "out", max_steps=4, learning_rate=1e-3, per_device_train_batch_size=4, max_length=64, bf16=False, report_to="none"
)
if flags.lora:
    trainer = SFTTrainer(
        model,
        args=args,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=4, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
    )
else:
    trainer = SFTTrainer(model, args=args, train_dataset=rows, processing_class=tokenizer)
trainer.train()
trainer.save_model("out/last")
