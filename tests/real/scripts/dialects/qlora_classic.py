"""QLoRA as its paper's scripts do it: nf4, double quantisation, k-bit preparation, a paged optimizer."""

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model_id = "meta-llama/Llama-3.1-8B-Instruct"

bnb_config = BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_use_double_quant=True,
    bnb_4bit_quant_type="nf4",
    bnb_4bit_compute_dtype=torch.bfloat16,
)
tokenizer = AutoTokenizer.from_pretrained(model_id)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(
    model_id, quantization_config=bnb_config, dtype=torch.bfloat16, device_map={"": 0}
)
model.config.use_cache = False
model.gradient_checkpointing_enable()
model = prepare_model_for_kbit_training(model)

config = LoraConfig(
    r=8,
    lora_alpha=32,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    lora_dropout=0.05,
    bias="none",
    task_type="CAUSAL_LM",
)
model = get_peft_model(model, config)
model.print_trainable_parameters()

questions = [f"What is {a} plus {b}?\nThe sum of {a} and {b} is {a + b}." for a in range(12) for b in (3, 11)]
data = Dataset.from_list([{"text": text} for text in questions])

trainer = SFTTrainer(
    model=model,
    processing_class=tokenizer,
    train_dataset=data,
    args=SFTConfig(
        output_dir="outputs",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        warmup_steps=2,
        max_steps=8,
        learning_rate=2e-3,
        logging_steps=1,
        max_length=64,
        optim="paged_adamw_8bit",
        save_strategy="no",
        report_to="none",
    ),
)
trainer.train()
trainer.save_model("outputs/adapter")
