import sys

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", torch_dtype="bfloat16")
dataset = load_dataset("trl-lib/Capybara", split="train")
args = SFTConfig("out", max_steps=5, report_to="none")
if "--lora" in sys.argv:
    trainer = SFTTrainer(
        model,
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=LoraConfig(r=16, target_modules=["q_proj", "v_proj"]),
    )
else:
    trainer = SFTTrainer(model, args=args, train_dataset=dataset, processing_class=tokenizer)
trainer.train()
trainer.save_model("out/last")
