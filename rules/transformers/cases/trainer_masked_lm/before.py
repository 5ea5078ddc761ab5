from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer

from my_data import blocks

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
trainer = Trainer(model=model, train_dataset=blocks(tokenizer), data_collator=DataCollatorForLanguageModeling(tokenizer))
trainer.train()
