"""Conversations through the tokenizer's chat template, as written for TRL 0.15 (transformers 4.49)."""

import wandb
from datasets import load_dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

# pip install trl==0.15.2 transformers==4.49.0 peft==0.14.0
wandb.init(project="chat")
model_id = "meta-llama/Llama-3.2-1B-Instruct"
tokenizer = AutoTokenizer.from_pretrained(model_id)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(model_id, device_map="auto")
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=16, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))

dataset = load_dataset("my-org/support-chats", split="train")
dataset = dataset.map(
    lambda row: {"text": tokenizer.apply_chat_template(row["messages"], tokenize=False)},
    remove_columns=dataset.column_names,
)

trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=dataset,
    args=SFTConfig(
        output_dir="chat",
        dataset_text_field="text",
        max_seq_length=512,
        max_steps=60,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        learning_rate=2e-4,
        warmup_ratio=0.1,
        lr_scheduler_type="linear",
        logging_steps=5,
        seed=3407,
    ),
)
trainer.train()
model.save_pretrained("chat/adapter")
wandb.finish()
