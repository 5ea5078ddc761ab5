from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

# TODO(tpu-port TP302): mistralai/Mixtral-8x7B-v0.1: Tunix has no implementation of this model family. Families that port: gemma, gemma2, gemma3, gemma4, llama3, mistral, qwen2, qwen3.
trainer = SFTTrainer(
    "mistralai/Mixtral-8x7B-v0.1",
    args=SFTConfig("out", max_steps=10, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    peft_config=LoraConfig(r=16),
)
trainer.train()
