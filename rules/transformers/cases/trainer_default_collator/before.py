import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from my_data import blocks

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
model.gradient_checkpointing_enable()
trainer = transformers.Trainer(model, transformers.TrainingArguments("out", bf16=True), train_dataset=blocks(tokenizer))
trainer.train()
