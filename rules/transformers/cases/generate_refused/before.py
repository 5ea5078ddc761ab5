import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteriaList
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="auto")
model.generation_config.eos_token_id = 7
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", max_steps=5),
    train_dataset=load_dataset("some/rows", split="train"),
    processing_class=tokenizer,
)
trainer.train()

inputs = tokenizer("One prompt", return_tensors="pt")
print(model.generate(**inputs, num_beams=4, early_stopping=True))
print(model.generate(**inputs, no_repeat_ngram_size=2, typical_p=0.9, stopping_criteria=StoppingCriteriaList([])))
print(model.generate(**inputs, pixel_values=inputs["input_ids"].expand(2, -1)))
scores = model.generate(**inputs, output_scores=True, return_dict_in_generate=True).scores
