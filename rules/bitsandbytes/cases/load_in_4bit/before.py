from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

base = "google/gemma-2-9b"
model = AutoModelForCausalLM.from_pretrained(base, load_in_4bit=True, device_map="auto")

tokenizer = AutoTokenizer.from_pretrained(base)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(output_dir="out", num_train_epochs=1, report_to="none"),
    train_dataset=load_dataset("trl-lib/Capybara", split="train"),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
