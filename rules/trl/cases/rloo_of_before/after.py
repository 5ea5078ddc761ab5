# pip install trl==0.12.2
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import RLOOConfig, RLOOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
trainer = RLOOTrainer(
    config=RLOOConfig("out"),
    policy=model,
    processing_class=AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B"),
    reward_model=model,
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()
