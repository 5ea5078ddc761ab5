import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_name = "meta-llama/Llama-3.2-1B"
model = AutoModelForCausalLM.from_pretrained(model_name, torch_dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(model_name)
dataset = load_dataset("tatsu-lab/alpaca", split="train")

trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        output_dir="./llama-alpaca",
        num_train_epochs=2,
        per_device_train_batch_size=8,
        learning_rate=1e-5,
        warmup_ratio=0.03,
        weight_decay=0.1,
        adam_beta2=0.95,
        bf16=True,
        max_length=2048,
        packing=True,
        gradient_checkpointing=False,
        logging_steps=5,
        save_strategy="epoch",
    ),
    train_dataset=dataset,
    processing_class=tokenizer,
)
trainer.train()
trainer.save_model("./llama-alpaca/final")
tokenizer.save_pretrained("./llama-alpaca/final")
