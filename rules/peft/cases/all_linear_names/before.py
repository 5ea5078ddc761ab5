import bitsandbytes as bnb
import torch
from datasets import load_dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

base = "Qwen/Qwen2.5-7B-Instruct"
BITS = 4


def find_all_linear_names(model):
    """Names of the layers that get an adapter."""
    cls = bnb.nn.Linear4bit if BITS == 4 else torch.nn.Linear
    found = set()
    for name, module in model.named_modules():
        if isinstance(module, cls):
            parts = name.split(".")
            found.add(parts[0] if len(parts) == 1 else parts[-1])
    if "lm_head" in found:
        found.remove("lm_head")
    return list(found)


quantization = BitsAndBytesConfig(
    load_in_4bit=BITS == 4, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
)
model = AutoModelForCausalLM.from_pretrained(base, quantization_config=quantization, dtype=torch.bfloat16)
print(f"{model.get_memory_footprint() / 2**30:.1f} GiB")
model = prepare_model_for_kbit_training(model)
modules = find_all_linear_names(model)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=modules, task_type="CAUSAL_LM"))
tokenizer = AutoTokenizer.from_pretrained(base)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
