"""Fine-tune Qwen3 0.6B on multi-turn conversations with LoRA, on one GPU."""

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

MODEL = "Qwen/Qwen3-0.6B"
LEARNING_RATE = 2e-4


def long_enough(row):
    """Conversations of one sentence teach nothing."""
    return sum(len(message["content"]) for message in row["messages"]) > 100


tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.bfloat16, attn_implementation="flash_attention_2")
model.config.use_cache = False
dataset = load_dataset("trl-lib/Capybara", split="train").filter(long_enough).select_columns(["messages"])

# Adapters on every linear layer but the head
peft_config = LoraConfig(
    r=16,  # rank
    lora_alpha=32,
    lora_dropout=0.05,
    target_modules="all-linear",
    task_type="CAUSAL_LM",
)
args = SFTConfig(
    output_dir="qwen3-capybara",
    num_train_epochs=1,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    learning_rate=LEARNING_RATE,
    lr_scheduler_type="cosine",
    warmup_ratio=0.03,
    max_grad_norm=0.3,  # QLoRA's paper
    max_length=1024,
    assistant_only_loss=True,
    logging_steps=10,
    save_strategy="epoch",
    report_to="none",
)
trainer = SFTTrainer(
    model=model,
    args=args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=peft_config,
)
trainer.train()
trainer.save_model(args.output_dir)
