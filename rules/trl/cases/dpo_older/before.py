import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DPOTrainer, create_reference_model

model = AutoModelForCausalLM.from_pretrained("meta-llama/Meta-Llama-3-8B", torch_dtype=torch.bfloat16)
model_ref = create_reference_model(model)
tokenizer = AutoTokenizer.from_pretrained("meta-llama/Meta-Llama-3-8B")

dpo_trainer = DPOTrainer(
    model,
    model_ref,
    args=TrainingArguments(output_dir="out", learning_rate=5e-7, remove_unused_columns=False),
    beta=0.1,
    loss_type="ipo",
    max_length=1024,
    max_prompt_length=512,
    train_dataset=load_dataset("json", data_files="pairs.jsonl", split="train"),
    tokenizer=tokenizer,
)
dpo_trainer.train()
