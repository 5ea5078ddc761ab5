"""Adapters without a trainer are not a training recipe."""
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig(r=8))
model = PeftModel.from_pretrained(model, "out/adapter").merge_and_unload()
model.save_pretrained("merged")
