import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer


def quantization(bits):
    """Four bits or eight."""
    return BitsAndBytesConfig(
        load_in_4bit=bits == 4,
        load_in_8bit=bits == 8,
        llm_int8_skip_modules=["lm_head", "down_proj"],
        bnb_4bit_compute_dtype=torch.float16,
        bnb_4bit_quant_type="nf4",
    )


base = "Qwen/Qwen3-8B"
model = AutoModelForCausalLM.from_pretrained(base, quantization_config=quantization(8), dtype=torch.bfloat16)
tokenizer = AutoTokenizer.from_pretrained(base)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
