from datasets import load_dataset
from mine import make_model_and_tokenizer
from trl import SFTConfig, SFTTrainer

model, tokenizer = make_model_and_tokenizer("Qwen/Qwen3-0.6B")
trainer = SFTTrainer(
    model,
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
)
trainer.train()
