import torch
from datasets import load_dataset
from peft import PeftModel
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, pipeline
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig("out", max_steps=5, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
)
trainer.train()

judge = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map={"": 0})
judge = PeftModel.from_pretrained(judge, "other/adapter").merge_and_unload()
place = "cuda:0"
small = AutoModelForCausalLM.from_pretrained(
    "facebook/opt-350m", quantization_config=BitsAndBytesConfig(load_in_4bit=True), device_map=place
)
feelings = pipeline("sentiment-analysis", device=0 if torch.cuda.is_available() else -1)
