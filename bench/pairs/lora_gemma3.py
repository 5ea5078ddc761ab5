"""LoRA on whole texts over two epochs: linear decay, a short last batch."""

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "google/gemma-3-1b-it"

tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
dataset = load_dataset("json", data_files="texts.jsonl", split="train")

args = SFTConfig(
    output_dir="out",
    num_train_epochs=2,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    gradient_checkpointing=False,
    learning_rate=1e-3,
    weight_decay=0.01,
    max_length=96,
    logging_steps=1,
    report_to="none",
    data_seed=42,
    seed=42,
)
trainer = SFTTrainer(
    model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]),
)
trainer.train()
trainer.save_state()
trainer.save_model("out/adapter")
